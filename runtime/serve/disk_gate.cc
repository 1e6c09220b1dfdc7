// See disk_gate.h.
#include "runtime/serve/disk_gate.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "pager/base/assert.h"
#include "pager/io/open_reader.h"

namespace weightpager::serve {
namespace {

constexpr uint32_t pieces_in_flight_max = 64;

// A piece's tag: the place of its read in the reader's table, and which piece it is.
constexpr int piece_bits = 32;
uint32_t place_of(uint64_t tag) { return static_cast<uint32_t>(tag >> piece_bits); }
uint64_t offset_of(uint64_t tag) { return (tag & UINT32_MAX) * piece_bytes_max; }

bool is_readable(int fd) {
  pollfd look = {.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&look, 1, 0) > 0;
}

}  // namespace

DiskGate::DiskGate(uint32_t networks, const budget::ArbiterSettings& settings)
    : arbiter_(networks, settings), networks_(networks) {}

DiskGate::~DiskGate() {
  for (const Network& network : networks_) WP_ASSERT(!network.has_reader);
}

void DiskGate::set_units(uint32_t network, std::vector<uint64_t> starts_before_deadline_ns) {
  const std::lock_guard lock(mutex_);
  Network& it = networks_[network];
  WP_ASSERT(!starts_before_deadline_ns.empty());
  it.starts_before_deadline_ns = std::move(starts_before_deadline_ns);
  it.inferences = 0;
}

void DiskGate::begin_inference(uint32_t network, int64_t deadline_ns, uint64_t period_ns) {
  const std::lock_guard lock(mutex_);
  Network& it = networks_[network];
  it.deadline_ns = deadline_ns;
  it.period_ns = period_ns;
  ++it.inferences;
}

uint64_t DiskGate::passed_bytes(uint32_t network) const {
  const std::lock_guard lock(mutex_);
  return networks_[network].passed_bytes;
}

int64_t DiskGate::latest_start_ns(const Network& network, uint64_t unit) const {
  const uint64_t units = network.starts_before_deadline_ns.size();
  const uint64_t now_running = network.inferences == 0 ? 0 : network.inferences - 1;
  const uint64_t ahead = unit / units - std::min(unit / units, now_running);
  const uint64_t due_later_ns = ahead * network.period_ns;
  return network.deadline_ns + static_cast<int64_t>(due_later_ns) -
         static_cast<int64_t>(network.starts_before_deadline_ns[unit % units]);
}

void DiskGate::ask(uint32_t network, uint64_t unit, uint64_t first_tag, uint32_t length_bytes) {
  const std::lock_guard lock(mutex_);
  const int64_t latest_ns = latest_start_ns(networks_[network], unit);
  uint64_t tag = first_tag;
  for (uint64_t at = 0; at < length_bytes; at += piece_bytes_max, ++tag) {
    const uint64_t size_bytes = std::min<uint64_t>(piece_bytes_max, length_bytes - at);
    arbiter_.ask(network, {.tag = tag, .size_bytes = size_bytes, .latest_start_ns = latest_ns});
  }
  let_through(network);
}

void DiskGate::on_arrived(uint32_t network, uint64_t size_bytes) {
  const std::lock_guard lock(mutex_);
  arbiter_.on_finished(size_bytes);
  networks_[network].passed_bytes += size_bytes;
  let_through(network);
}

void DiskGate::let_through(uint32_t asking) {
  while (const auto start = arbiter_.next()) {
    Network& it = networks_[start->network];
    it.may_start.push_back(start->read.tag);
    if (start->network != asking) eventfd_write(it.bell.get(), 1);
  }
}

std::deque<uint64_t> DiskGate::take_startable(uint32_t network) {
  const std::lock_guard lock(mutex_);
  return std::exchange(networks_[network].may_start, {});
}

void DiskGate::leave(uint32_t network) {
  const std::lock_guard lock(mutex_);
  arbiter_.leave(network);
  let_through(network);
}

void DiskGate::close(uint32_t network) {
  const std::lock_guard lock(mutex_);
  Network& it = networks_[network];
  WP_ASSERT(it.may_start.empty());
  it.has_reader = false;
  it.bell = {};
}

/// What an executor takes for its reader.
class GatedReader final : public io::Reader {
 public:
  GatedReader(DiskGate& gate, uint32_t network, const io::ReaderOptions& options)
      : gate_(gate), network_(network), watched_fd_(options.watched_fd) {
    reads_.resize(options.reads_max);
    completions_.reserve(options.reads_max);
  }
  ~GatedReader() override;

  Status open(const io::ReaderOptions& options, int bell);
  void start(const io::Read& read) override;
  io::Wakeup wait(int64_t timeout_ns) override;
  uint32_t reads_in_flight() const override { return reads_in_flight_; }
  const char* name() const override { return inner_->name(); }

 private:
  /// A read, and what has arrived of it.
  struct InPieces {
    io::Read read;
    uint32_t pieces_left = 0;  // 0: a free place
    uint64_t good_bytes = 0;   // without a gap
    int error_number = 0;
  };

  uint32_t piece_length(uint64_t tag) const {
    const uint64_t left = reads_[place_of(tag)].read.length_bytes - offset_of(tag);
    return static_cast<uint32_t>(std::min<uint64_t>(left, piece_bytes_max));
  }
  void start_pieces();
  void take_piece(const io::Completion& piece);

  DiskGate& gate_;
  const uint32_t network_;
  const int watched_fd_;
  int bell_ = -1;
  OwnedFd both_;  // the bell, and what the executor watches
  std::unique_ptr<io::Reader> inner_;
  std::deque<uint64_t> startable_;
  std::vector<InPieces> reads_;
  uint32_t reads_in_flight_ = 0;
  std::vector<io::Completion> completions_;
};

Status GatedReader::open(const io::ReaderOptions& options, int bell) {
  bell_ = bell;
  both_ = OwnedFd(epoll_create1(EPOLL_CLOEXEC));
  for (const int fd : {bell, watched_fd_}) {
    epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};
    if (fd >= 0 && epoll_ctl(both_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      return fail(fmt::format("no epoll descriptor: {}", std::strerror(errno)),
                  "too many open files: raise `ulimit -n`", errno);
    }
  }
  io::ReaderOptions inner_options = options;
  inner_options.watched_fd = both_.get();
  inner_options.reads_max = pieces_in_flight_max;
  inner_options.read_bytes_max = piece_bytes_max;
  auto inner = io::open_best_reader(inner_options);
  if (!inner) return forward_error(std::move(inner));
  inner_ = std::move(*inner);
  return {};
}

// The arbiter counts what is at the disk: that has to arrive, also if nobody wants it any more.
GatedReader::~GatedReader() {
  gate_.leave(network_);
  for (const uint64_t tag : gate_.take_startable(network_)) startable_.push_back(tag);
  for (const uint64_t tag : startable_) gate_.on_arrived(network_, piece_length(tag));
  while (inner_ != nullptr && inner_->reads_in_flight() > 0) {
    for (const io::Completion& piece : inner_->wait(-1).completions) {
      gate_.on_arrived(network_, piece_length(piece.tag));
    }
    eventfd_t rings;
    eventfd_read(bell_, &rings);
  }
  gate_.close(network_);
}

void GatedReader::start(const io::Read& read) {
  const auto free = std::find_if(reads_.begin(), reads_.end(),
                                 [](const InPieces& it) { return it.pieces_left == 0; });
  WP_ASSERT(free != reads_.end() && read.length_bytes > 0);
  *free = {.read = read,
           .pieces_left = (read.length_bytes + piece_bytes_max - 1) / piece_bytes_max,
           .good_bytes = read.length_bytes};
  ++reads_in_flight_;
  const auto place = static_cast<uint64_t>(free - reads_.begin());
  gate_.ask(network_, read.tag, place << piece_bits, read.length_bytes);
}

void GatedReader::start_pieces() {
  for (const uint64_t tag : gate_.take_startable(network_)) startable_.push_back(tag);
  while (!startable_.empty() && inner_->reads_in_flight() < pieces_in_flight_max) {
    const uint64_t tag = startable_.front();
    startable_.pop_front();
    const io::Read& whole = reads_[place_of(tag)].read;
    inner_->start({.tag = tag,
                   .fd = whole.fd,
                   .offset_bytes = whole.offset_bytes + offset_of(tag),
                   .length_bytes = piece_length(tag),
                   .buffer = whole.buffer + offset_of(tag)});
  }
}

io::Wakeup GatedReader::wait(int64_t timeout_ns) {
  completions_.clear();
  start_pieces();
  const io::Wakeup wakeup = inner_->wait(timeout_ns);
  eventfd_t rings;
  eventfd_read(bell_, &rings);
  for (const io::Completion& piece : wakeup.completions) take_piece(piece);
  return {.completions = completions_,
          .watched_fd_readable = watched_fd_ >= 0 && is_readable(watched_fd_)};
}

// What arrived is good up to the first piece that is short, and that piece's error is the read's.
void GatedReader::take_piece(const io::Completion& piece) {
  const uint32_t length_bytes = piece_length(piece.tag);
  InPieces& it = reads_[place_of(piece.tag)];
  const uint64_t good_bytes = offset_of(piece.tag) + piece.length_bytes;
  if (piece.length_bytes < length_bytes && good_bytes < it.good_bytes) {
    it.good_bytes = good_bytes;
    it.error_number = piece.error_number;
  }
  if (--it.pieces_left == 0) {
    --reads_in_flight_;
    completions_.push_back({.tag = it.read.tag,
                            .error_number = it.error_number,
                            .length_bytes = static_cast<uint32_t>(it.good_bytes)});
  }
  gate_.on_arrived(network_, length_bytes);
}

Result<std::unique_ptr<io::Reader>> DiskGate::open_reader(uint32_t network,
                                                          const io::ReaderOptions& options) {
  int bell = -1;
  {
    const std::lock_guard lock(mutex_);
    Network& it = networks_[network];
    WP_ASSERT(!it.has_reader);
    it.bell = OwnedFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!it.bell.is_open()) {
      return fail(fmt::format("no eventfd: {}", std::strerror(errno)),
                  "too many open files: raise `ulimit -n`", errno);
    }
    bell = it.bell.get();
    it.has_reader = true;
  }
  auto reader = std::make_unique<GatedReader>(*this, network, options);
  if (Status opened = reader->open(options, bell); !opened) return forward_error(std::move(opened));
  return reader;
}

}  // namespace weightpager::serve
