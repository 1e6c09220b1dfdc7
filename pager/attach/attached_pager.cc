#include "pager/attach/attached_pager.h"

#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/log.h"
#include "pager/base/refusal.h"
#include "pager/base/system_calls.h"
#include "pager/base/thread.h"
#include "pager/base/units.h"

namespace weightpager::attach {

using window::Region;

namespace {

// How often a file is opened again because it was served anew in between.
constexpr int openings_max = 100;

}  // namespace

// ---- Engine side ----

Result<std::unique_ptr<AttachedPager>> AttachedPager::start(const std::string& socket_path,
                                                            telemetry::Telemetry* telemetry) {
  std::unique_ptr<AttachedPager> it(new AttachedPager(socket_path, telemetry));
  auto thread = start_thread_that_opens(
      "wp-attached", [it = it.get()](std::promise<Status>& opened) { it->run(opened); });
  if (!thread) return forward_error(std::move(thread));
  it->thread_ = std::move(*thread);
  return it;
}

AttachedPager::~AttachedPager() {
  if (!thread_.joinable()) return;
  execute([&] {
    WP_ASSERT(regions_.empty());
    is_stopping_ = true;
  });
  thread_.join();
}

Result<std::byte*> AttachedPager::add_region(const RegionRequest& request) {
  Result<std::byte*> address = nullptr;
  execute([&] { address = do_add_region(request); });
  return address;
}

void AttachedPager::remove(std::byte* address, uint64_t length_bytes) {
  execute([&] { do_remove(address, length_bytes); });
}

void AttachedPager::advise(std::byte* address, uint64_t length_bytes, Advice advice) {
  execute([&] { do_advise(address, length_bytes, advice); });
}

void AttachedPager::protect(std::byte* address, uint64_t length_bytes, bool is_accessible) {
  execute([&] { do_protect(address, length_bytes, is_accessible); });
}

void AttachedPager::residency(std::byte* address, uint64_t length_bytes, unsigned char* pages) {
  execute([&] { page_map_->residency(address, length_bytes, pages); });
}

std::vector<AttachedPager::View> AttachedPager::views() {
  std::vector<View> views;
  execute([&] {
    for (const Mapped& it : regions_) {
      views.push_back({it.name, it.region->length_bytes()});
    }
  });
  return views;
}

std::string AttachedPager::file_link(std::byte* address) {
  std::string link;
  execute([&] { link = find_file_link(address); });
  return link;
}

std::vector<Span> AttachedPager::written_spans() {
  std::vector<Span> spans;
  execute([&] { spans = do_written_spans(); });
  return spans;
}

// ---- The thread ----

void AttachedPager::run(std::promise<Status>& opened) {
  Status outcome = open_everything();
  const bool is_fine = outcome.has_value();
  opened.set_value(std::move(outcome));
  if (is_fine) serve();
  // These descriptors exist in this thread's table only.
  regions_.clear();
  socket_ = {};
  page_map_.reset();
  space_.reset();
  bell_.reset();
}

Status AttachedPager::open_everything() {
  // In its own descriptor table the engine could close this userfaultfd and the socket at once.
  // Without the socket the server closes its userfaultfd, too, and absent chunks would read as
  // zeros.
  if (unshare(CLONE_FILES) != 0) {
    return fail(std::string("no descriptor table of one's own: ") + std::strerror(errno),
                "allow unshare(CLONE_FILES) in the container's seccomp profile", errno);
  }
  auto faults = fault::Userfaultfd::open();
  if (!faults) return forward_error(std::move(faults));
  auto bell = fault::Userfaultfd::open();
  if (!bell) return forward_error(std::move(bell));
  if (!faults->has_shared_memory()) {
    return fail("this kernel has no userfaultfd for shared memory", "Linux 5.14 and later have it");
  }
  space_.emplace(std::move(*faults));
  bell_.emplace(std::move(*bell));
  is_user_mode_only_ = bell_->is_user_mode_only();
  page_map_.emplace();
  if (auto done = doorbell_.hang(*bell_); !done) return done;
  std::memcpy(telemetry_.mapper, telemetry::attached, sizeof telemetry::attached);
  if (auto done = connect(); !done) return done;
  return introduce();
}

Status AttachedPager::connect() {
  const auto address = socket_address(socket_path_);
  if (!address) return tl::make_unexpected(address.error());
  socket_ = OwnedFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (socket_.is_open() && ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&*address),
                                     sizeof *address) == 0) {
    ucred server{};
    socklen_t length = sizeof server;
    if (getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &server, &length) == 0) {
      server_process_id_ = server.pid;
    }
    return {};
  }
  return fail(socket_path_ + ": no server there: " + std::strerror(errno),
              "start it with `weightpager serve MODEL --window SIZE --name NAME`", errno);
}

// The userfaultfd goes to the server.
Status AttachedPager::introduce() {
  const Message hello{.kind = Message::Kind::hello, .value = protocol_version};
  Message answer;
  OwnedFd none;
  if (!send_message(socket_.get(), hello, space_->uffd().fd()) ||
      receive_message(socket_.get(), answer, none) != Received::message) {
    return speaks_otherwise();
  }
  if (answer.kind == Message::Kind::refused) return fail(answer.text);
  return answer.kind == Message::Kind::done ? Status() : speaks_otherwise();
}

Status AttachedPager::speaks_otherwise() const {
  return fail(socket_path_ + ": the server speaks otherwise than this library",
              "use server and engine of one version of weightpager", EPROTO);
}

void AttachedPager::serve() {
  while (!is_stopping_) {
    // Once the server is lost only engine threads ring; poll() passes over a negative descriptor.
    std::array<pollfd, 2> watched = {pollfd{bell_->fd(), POLLIN, 0},
                                     pollfd{socket_.get(), POLLIN, 0}};
    if (poll(watched.data(), watched.size(), -1) < 0) {
      if (is_refusal(errno)) end_refused("poll", errno);
      continue;
    }

    // 1. What the server says, first of all that it is gone.
    if (watched[1].revents != 0) take_messages();

    // 2. What engine threads ask for.
    if (watched[0].revents != 0) take_rings();
  }
}

void AttachedPager::take_rings() {
  std::array<fault::Fault, 64> rings;
  const size_t count = bell_->read_faults(rings);
  for (size_t i = 0; i < count; ++i) doorbell_.answer(*bell_, rings[i].address);
  commands_.carry_out();
}

// Between requests a server only says what is to be sealed.
void AttachedPager::take_messages() {
  Message message;
  OwnedFd none;
  const Received received = receive_message(socket_.get(), message, none);
  if (received == Received::message && message.kind == Message::Kind::seal) return seal(message);
  lose_server();
}

// Sends a request and waits for its answer; in between the server may want something sealed.
Result<Message> AttachedPager::answer_to(const Message& request, OwnedFd& descriptor) {
  const auto lost = [&] { return fail(socket_path_ + ": the server has ended", "", EPIPE); };
  if (!socket_.is_open()) return lost();
  if (send_message(socket_.get(), request)) {
    for (;;) {
      Message answer;
      if (receive_message(socket_.get(), answer, descriptor) != Received::message) break;
      if (answer.kind == Message::Kind::refused) return fail(answer.text);
      if (answer.kind == Message::Kind::changed) return fail(answer.text, "", ESTALE);
      if (answer.kind != Message::Kind::seal) return answer;
      seal(answer);
    }
  }
  lose_server();
  return lost();
}

Status AttachedPager::ask(const Message& request) {
  OwnedFd none;
  auto answer = answer_to(request, none);
  if (!answer) return forward_error(std::move(answer));
  return answer->kind == Message::Kind::done ? Status() : speaks_otherwise();
}

// The server sends the model's memory, for reading.
Result<AttachedPager::ServedModel> AttachedPager::open_model(const RegionRequest& request,
                                                             const io::ModelFile& file) {
  OwnedFd memory;
  auto answer = answer_to({.kind = Message::Kind::open,
                           .device = file.identity().device,
                           .inode = file.identity().inode},
                          memory);
  if (!answer) {
    return fail(request.name + ": " + answer.error().message + " at " + socket_path_,
                "name it in `weightpager serve` too, or leave out --attach",
                answer.error().error_number);
  }
  if (answer->kind != Message::Kind::file || !memory.is_open()) {
    return tl::make_unexpected(speaks_otherwise().error());
  }
  return ServedModel{.number = answer->file,
                     .edition = answer->edition,
                     .size_bytes = answer->size_bytes,
                     .memory = std::move(memory),
                     .is_module = answer->value == 1};
}

Result<std::byte*> AttachedPager::do_add_region(const RegionRequest& request) {
  auto file = open_file_of(request);
  if (!file) return forward_error(std::move(file));
  if (request.is_writable && !page_map_->is_open()) {
    return fail(request.name + ": mapped writable, and it cannot be told here what is written",
                "mount /proc");
  }
  auto region = show(request, *file);
  // The file was served anew between the two requests, for another guest: ask once more.
  for (int i = 0; i < openings_max && !region && region.error().error_number == ESTALE; ++i) {
    region = show(request, *file);
  }
  if (!region) return forward_error(std::move(region));
  std::byte* const address = (*region)->address();
  regions_.push_back({std::move(*region), std::move(*file), request.name});
  telemetry::add(telemetry_.models, 1);
  if (telemetry_.started_ns.load() == 0) {
    telemetry::set(telemetry_.started_ns, telemetry::monotonic_ns());
  }
  return address;
}

Result<std::unique_ptr<Region>> AttachedPager::show(const RegionRequest& request,
                                                    const io::ModelFile& file) {
  auto model = open_model(request, file);
  if (!model) return forward_error(std::move(model));
  // The size of the server's chunks does not matter here, because this region only notes pages.
  auto region = Region::reserve({.offset_bytes = request.offset_bytes,
                                 .length_bytes = request.length_bytes,
                                 .file_size_bytes = model->size_bytes,
                                 .is_writable = request.is_writable},
                                huge_page_bytes, *space_, model->memory.get(),
                                model->is_module ? MAP_SHARED : MAP_PRIVATE);
  if (!region) return region;
  const uint64_t live_bytes = (*region)->live_bytes();
  if (live_bytes == 0) return region;
  std::byte* const address = (*region)->address();
  if (!model->is_module) {
    auto done = space_->uffd().register_view(address, live_bytes);
    if (!done) return forward_error(std::move(done));
  }
  const Message add{.kind = Message::Kind::add_region,
                    .file = model->number,
                    .edition = model->edition,
                    .offset_bytes = request.offset_bytes,
                    .address = reinterpret_cast<uintptr_t>(address),
                    .length_bytes = live_bytes};
  if (auto done = ask(add); !done) return forward_error(std::move(done));
  return region;
}

void AttachedPager::do_remove(std::byte* address, uint64_t length_bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const uintptr_t end = begin + round_up(length_bytes, os_page_bytes);
  // The server comes first: once it has answered, it asks for nothing in the range to be sealed,
  // whatever lies there then.
  (void)ask({.kind = Message::Kind::remove, .address = begin, .length_bytes = end - begin});
  for (const Mapped& mapped : regions_) {
    Region& region = *mapped.region;
    const Span part = region.part_of({begin, end});
    if (part.is_empty()) continue;
    region.for_each_piece(part.begin, part.end, [&](uint32_t index, uint32_t page, uint32_t count) {
      region.drop_unmapped_pages(index, page, count);
    });
    kernel::munmap(reinterpret_cast<void*>(part.begin), part.length_bytes());
    space_->uffd().wake(reinterpret_cast<void*>(part.begin), part.length_bytes());
  }
  std::erase_if(regions_, [](const Mapped& mapped) {
    if (mapped.region->is_in_use()) return false;
    mapped.region->abandon();
    return true;
  });
}

void AttachedPager::do_advise(std::byte* address, uint64_t length_bytes, Advice advice) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const uintptr_t end = begin + length_bytes;
  if (advice == Advice::discard) {
    for (const Mapped& mapped : regions_) {
      give_up_written(*mapped.region, begin, end);
    }
  }
  (void)ask({.kind = Message::Kind::advise,
             .value = static_cast<uint64_t>(advice),
             .address = begin,
             .length_bytes = end - begin});
}

// The server need not know: the kernel checks the protection before it asks the server.
void AttachedPager::do_protect(std::byte* address, uint64_t length_bytes, bool is_accessible) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const uintptr_t end = begin + round_up(length_bytes, os_page_bytes);
  for (const Mapped& mapped : regions_) {
    const Span part = mapped.region->part_of({begin, end});
    if (!part.is_empty()) mapped.region->set_accessible(part, is_accessible);
  }
}

std::vector<Span> AttachedPager::do_written_spans() const {
  std::vector<Span> spans;
  for (const Mapped& mapped : regions_) {
    for (uint32_t i = 0; i < mapped.region->chunks(); ++i) {
      let_children_inherit_written(*mapped.region, i, *page_map_,
                                   [&](std::byte* address, uint64_t length_bytes) {
                                     const auto begin = reinterpret_cast<uintptr_t>(address);
                                     spans.push_back({begin, begin + length_bytes});
                                   });
    }
  }
  std::sort(spans.begin(), spans.end(),
            [](const Span& one, const Span& other) { return one.begin < other.begin; });
  return spans;
}

std::string AttachedPager::find_file_link(std::byte* address) const {
  // The newest region that begins there, because a hole of an older region may begin there, too.
  const auto mapped = std::find_if(regions_.rbegin(), regions_.rend(), [&](const Mapped& it) {
    return it.region->address() == address;
  });
  if (mapped == regions_.rend()) return "";
  return link_of_descriptor(mapped->file.fd());
}

void AttachedPager::seal(const Message& message) {
  for (const Mapped& mapped : regions_) {
    seal(*mapped.region, message.address, message.address + message.length_bytes);
  }
}

void AttachedPager::seal(Region& region, uintptr_t begin, uintptr_t end) {
  seal_unwritten(region, begin, end, *page_map_);
  region.for_each_piece(begin, end, [&](uint32_t index, uint32_t first_page, uint32_t count) {
    region.drop_sealed_pages(index, first_page, count);
  });
}

// Nobody will serve the faults of these regions again, so a touch gets SIGBUS instead of a wait
// without end.
void AttachedPager::lose_server() {
  socket_ = {};
  report_error(socket_path_ +
               ": the server of the weights has ended; an engine that touches them gets SIGBUS");
  telemetry::add(telemetry_.read_errors, 1);
  for (const Mapped& mapped : regions_) {
    const auto begin = reinterpret_cast<uintptr_t>(mapped.region->address());
    seal(*mapped.region, begin, begin + mapped.region->live_bytes());
  }
}

}  // namespace weightpager::attach
