// The engine's side of a pager that runs in another process: `weightpager serve`.
//
// Regions are views of the server's memory. Their faults go straight to the server, which has this
// process's userfaultfd and answers them; no thread of this process takes part. One thread here
// does what only the process itself can do: it maps and unmaps views, and seals chunks that could
// not be read. When the server is gone, however that happened, it seals every region and says so.
// The thread has a descriptor table of its own, so that the engine cannot close its descriptors.
#pragma once

#include <sys/types.h>

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "pager/attach/protocol.h"
#include "pager/base/owned_fd.h"
#include "pager/base/result.h"
#include "pager/fault/command_stack.h"
#include "pager/fault/doorbell.h"
#include "pager/io/model_file.h"
#include "pager/loop/paging_service.h"
#include "pager/telemetry/telemetry.h"
#include "pager/window/address_space.h"
#include "pager/window/page_map.h"
#include "pager/window/region.h"

namespace weightpager::attach {

class AttachedPager final : public PagingService {
 public:
  /// Connects to the server's socket. Fails if no server listens there, or this kernel or container
  /// has no userfaultfd for shared memory. `telemetry` is not owned and outlives the object.
  static Result<std::unique_ptr<AttachedPager>> start(const std::string& socket_path,
                                                      telemetry::Telemetry* telemetry);
  /// Requires that every region was removed.
  ~AttachedPager() override;

  bool is_user_mode_only() const override { return is_user_mode_only_; }
  Result<std::byte*> add_region(const RegionRequest& request) override;
  void remove(std::byte* address, uint64_t length_bytes) override;
  void advise(std::byte* address, uint64_t length_bytes, Advice advice) override;
  void protect(std::byte* address, uint64_t length_bytes, bool is_accessible) override;
  std::string file_link(std::byte* address) override;
  std::vector<Span> written_spans() override;
  void residency(std::byte* address, uint64_t length_bytes, unsigned char* pages) override;

  /// A region, which shows a served file or a part of it.
  struct View {
    std::string name;
    uint64_t size_bytes = 0;
  };
  /// One for each region.
  std::vector<View> views();
  /// 0 if it is not known.
  pid_t server_process_id() const { return server_process_id_; }

 private:
  /// A model as the server serves it now.
  struct ServedModel {
    uint32_t number = 0;
    uint64_t edition = 0;
    uint64_t size_bytes = 0;
    OwnedFd memory;
    bool is_module = false;  // the memory tells touches by itself
  };
  struct Mapped {
    std::unique_ptr<window::Region> region;
    io::ModelFile file;
    std::string name;
  };

  AttachedPager(std::string socket_path, telemetry::Telemetry* telemetry)
      : socket_path_(std::move(socket_path)), telemetry_(*telemetry) {}

  template <typename Act>
  void execute(Act act) {
    commands_.execute(doorbell_, act);
  }

  // The thread.
  void run(std::promise<Status>& opened);
  Status open_everything();
  Status connect();
  Status introduce();
  void serve();
  void take_rings();
  void take_messages();
  Result<std::byte*> do_add_region(const RegionRequest& request);
  void do_remove(std::byte* address, uint64_t length_bytes);
  void do_protect(std::byte* address, uint64_t length_bytes, bool is_accessible);
  void do_advise(std::byte* address, uint64_t length_bytes, Advice advice);
  std::vector<Span> do_written_spans() const;
  std::string find_file_link(std::byte* address) const;
  Result<ServedModel> open_model(const RegionRequest& request, const io::ModelFile& file);
  Result<std::unique_ptr<window::Region>> show(const RegionRequest& request,
                                               const io::ModelFile& file);
  Status ask(const Message& request);
  Status speaks_otherwise() const;
  Result<Message> answer_to(const Message& request, OwnedFd& descriptor);
  void seal(const Message& message);
  void seal(window::Region& region, uintptr_t begin, uintptr_t end);
  void lose_server();

  const std::string socket_path_;
  telemetry::Telemetry& telemetry_;

  // Set up by the thread, used by it alone.
  std::optional<window::AddressSpace> space_;  // the server reads its faults
  std::optional<fault::Userfaultfd> bell_;     // the doorbell's
  std::optional<window::PageMap> page_map_;
  OwnedFd socket_;
  std::vector<Mapped> regions_;
  bool is_stopping_ = false;
  // Written before start() returns.
  bool is_user_mode_only_ = false;
  pid_t server_process_id_ = 0;

  // Between the threads.
  fault::Doorbell doorbell_;
  fault::CommandStack commands_;
  std::thread thread_;
};

}  // namespace weightpager::attach
