// See disk_gate.h.
#include "runtime/serve/disk_gate.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "pager/base/assert.h"
#include "pager/base/thread.h"
#include "pager/io/open_reader.h"

namespace weightpager::serve {
namespace {

constexpr uint32_t pieces_in_flight_max = 64;

/// A piece of a read. The arbiter and the disk know it by its tag.
struct Piece {
  uint32_t network = 0;
  uint32_t place = 0;   // place of its read in the network's table
  uint32_t number = 0;  // its number within the read

  uint64_t tag() const { return uint64_t{network} << 48 | uint64_t{place} << 32 | number; }
  uint64_t offset_bytes() const { return uint64_t{number} * piece_bytes_max; }
};

Piece piece_of(uint64_t tag) {
  return {.network = static_cast<uint32_t>(tag >> 48),
          .place = static_cast<uint32_t>(tag >> 32 & UINT16_MAX),
          .number = static_cast<uint32_t>(tag & UINT32_MAX)};
}

uint32_t piece_length(const io::Read& read, uint64_t offset_bytes) {
  return static_cast<uint32_t>(
      std::min<uint64_t>(piece_bytes_max, read.length_bytes - offset_bytes));
}

}  // namespace

/// The reader that an executor uses.
class GatedReader final : public io::Reader {
 public:
  GatedReader(DiskGate& gate, uint32_t network, uint32_t reads_max)
      : gate_(gate), network_(network) {
    handed_out_.reserve(reads_max);
  }
  ~GatedReader() override { gate_.leave(network_); }

  void start(const io::Read& read) override {
    ++reads_in_flight_;
    gate_.ask(network_, read);
  }
  io::Wakeup wait(int64_t timeout_ns) override;
  uint32_t reads_in_flight() const override { return reads_in_flight_; }
  const char* name() const override { return gate_.disk_->name(); }

 private:
  DiskGate& gate_;
  const uint32_t network_;
  uint32_t reads_in_flight_ = 0;
  std::vector<io::Completion> handed_out_;
};

io::Wakeup GatedReader::wait(int64_t timeout_ns) {
  WP_ASSERT(timeout_ns <= 0);
  handed_out_.clear();
  const MutexLock lock(gate_.mutex_);
  std::vector<io::Completion>& arrived = gate_.networks_[network_].completions;
  if (timeout_ns == 0) {
    gate_.come_by();
  } else {
    gate_.come_by_until([&arrived] { return !arrived.empty(); });
  }
  std::swap(handed_out_, arrived);
  reads_in_flight_ -= static_cast<uint32_t>(handed_out_.size());
  return {.completions = handed_out_};
}

DiskGate::DiskGate(uint32_t networks, const budget::ArbiterSettings& settings)
    : arbiter_(networks, settings), networks_(networks) {
  WP_ASSERT(networks <= UINT16_MAX);
}

DiskGate::~DiskGate() {
  for (const Network& network : networks_) WP_ASSERT(!network.has_reader);
}

void DiskGate::set_units(uint32_t network, std::vector<uint64_t> starts_before_deadline_ns) {
  const MutexLock lock(mutex_);
  Network& it = networks_[network];
  WP_ASSERT(!starts_before_deadline_ns.empty());
  it.starts_before_deadline_ns = std::move(starts_before_deadline_ns);
  it.inferences = 0;
}

void DiskGate::begin_inference(uint32_t network, int64_t deadline_ns, uint64_t period_ns) {
  const MutexLock lock(mutex_);
  Network& it = networks_[network];
  it.deadline_ns = deadline_ns;
  it.period_ns = period_ns;
  ++it.inferences;
}

uint64_t DiskGate::passed_bytes(uint32_t network) const {
  const MutexLock lock(mutex_);
  return networks_[network].passed_bytes;
}

int64_t DiskGate::latest_start_ns(const Network& network, uint64_t unit) {
  const uint64_t units = network.starts_before_deadline_ns.size();
  const uint64_t now_running = network.inferences == 0 ? 0 : network.inferences - 1;
  const uint64_t ahead = unit / units - std::min(unit / units, now_running);
  const uint64_t due_later_ns = ahead * network.period_ns;
  return network.deadline_ns + static_cast<int64_t>(due_later_ns) -
         static_cast<int64_t>(network.starts_before_deadline_ns[unit % units]);
}

// ---- Readers come and go ----

Result<std::unique_ptr<io::Reader>> DiskGate::open_reader(uint32_t network,
                                                          const io::ReaderOptions& options) {
  WP_ASSERT(options.watched_fd < 0 && options.reads_max <= UINT16_MAX);
  const MutexLock lock(mutex_);
  Network& it = networks_[network];
  WP_ASSERT(!it.has_reader && it.completions.empty());
  if (disk_ == nullptr) {
    if (Status opened = open_disk(options); !opened) return forward_error(std::move(opened));
  }
  it.reads.assign(options.reads_max, {});
  it.completions.reserve(options.reads_max);
  it.has_reader = true;
  return std::make_unique<GatedReader>(*this, network, options.reads_max);
}

Status DiskGate::open_disk(const io::ReaderOptions& options) {
  bell_ = OwnedFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell_.is_open()) {
    return fail(fmt::format("no eventfd: {}", std::strerror(errno)),
                "too many open files: raise `ulimit -n`", errno);
  }
  auto disk = io::open_best_reader({.watched_fd = bell_.get(),
                                    .is_of_one_thread = false,
                                    .reads_max = pieces_in_flight_max,
                                    .read_bytes_max = piece_bytes_max,
                                    .device_read_bytes = options.device_read_bytes});
  if (!disk) return forward_error(std::move(disk));
  disk_ = std::move(*disk);
  return {};
}

// Waits for the pieces under way even though the network does not need them any more: the disk
// still writes into their buffers.
void DiskGate::leave(uint32_t network) {
  const MutexLock lock(mutex_);
  Network& it = networks_[network];
  arbiter_.leave(network);
  std::erase_if(may_start_, [&](uint64_t tag) WP_REQUIRES(mutex_) {
    const Piece piece = piece_of(tag);
    if (piece.network != network) return false;
    arbiter_.on_finished(piece_length(it.reads[piece.place].read, piece.offset_bytes()));
    --it.pieces_under_way;
    return true;
  });
  let_through();
  come_by_until([&it] { return it.pieces_under_way == 0; });
  it.completions.clear();
  it.has_reader = false;
}

// ---- The gate's work, which each network does that comes by; the lock is held ----

void DiskGate::ask(uint32_t network, const io::Read& read) {
  const MutexLock lock(mutex_);
  Network& it = networks_[network];
  const auto free = std::find_if(it.reads.begin(), it.reads.end(),
                                 [](const ReadInPieces& place) { return place.pieces_left == 0; });
  WP_ASSERT(free != it.reads.end() && read.length_bytes > 0);
  *free = {.read = read, .good_bytes = read.length_bytes};
  const int64_t latest_ns = latest_start_ns(it, read.tag);
  Piece piece = {.network = network, .place = static_cast<uint32_t>(free - it.reads.begin())};
  for (; piece.offset_bytes() < read.length_bytes; ++piece.number) {
    arbiter_.ask(network, {.tag = piece.tag(),
                           .size_bytes = piece_length(read, piece.offset_bytes()),
                           .latest_start_ns = latest_ns});
  }
  free->pieces_left = piece.number;
  let_through();
}

void DiskGate::let_through() {
  while (const auto start = arbiter_.next()) {
    may_start_.push_back(start->read.tag);
    ++networks_[start->network].pieces_under_way;
  }
}

void DiskGate::come_by() {
  if (is_asleep_) {
    if (!may_start_.empty()) eventfd_write(bell_.get(), 1);
    return;
  }
  // Pieces that have arrived let more pieces pass.
  do {
    start_pieces();
    take_pieces(disk_->wait(0).completions);
  } while (!may_start_.empty() && disk_->reads_in_flight() < pieces_in_flight_max);
}

void DiskGate::come_by_until(const std::function<bool()>& is_done) {
  come_by();
  if (is_done()) return;
  // Other networks compute meanwhile, and the reads that this one waits for are already late.
  const HasteToWake haste;
  while (!is_done()) {
    if (is_asleep_) {
      changed_.wait(mutex_);
    } else {
      sleep();
    }
  }
  come_by();
}

void DiskGate::sleep() {
  start_pieces();
  is_asleep_ = true;
  mutex_.unlock();
  const io::Wakeup wakeup = disk_->wait(-1);
  mutex_.lock();
  is_asleep_ = false;
  if (wakeup.watched_fd_readable) {
    eventfd_t rings;
    eventfd_read(bell_.get(), &rings);
  }
  take_pieces(wakeup.completions);
  changed_.wake_all();
}

void DiskGate::start_pieces() {
  while (!may_start_.empty() && disk_->reads_in_flight() < pieces_in_flight_max) {
    const uint64_t tag = may_start_.front();
    may_start_.pop_front();
    const Piece piece = piece_of(tag);
    const io::Read& whole = networks_[piece.network].reads[piece.place].read;
    disk_->start({.tag = tag,
                  .fd = whole.fd,
                  .offset_bytes = whole.offset_bytes + piece.offset_bytes(),
                  .length_bytes = piece_length(whole, piece.offset_bytes()),
                  .buffer = whole.buffer + piece.offset_bytes()});
  }
}

// A read is good up to its first piece that is short, and that piece's error becomes the read's.
void DiskGate::take_pieces(std::span<const io::Completion> pieces) {
  for (const io::Completion& arrived : pieces) {
    const Piece piece = piece_of(arrived.tag);
    Network& network = networks_[piece.network];
    ReadInPieces& it = network.reads[piece.place];
    const uint32_t length_bytes = piece_length(it.read, piece.offset_bytes());
    const uint64_t good_bytes = piece.offset_bytes() + arrived.length_bytes;
    if (arrived.length_bytes < length_bytes && good_bytes < it.good_bytes) {
      it.good_bytes = good_bytes;
      it.error_number = arrived.error_number;
    }
    if (--it.pieces_left == 0) {
      network.completions.push_back({.tag = it.read.tag,
                                     .error_number = it.error_number,
                                     .length_bytes = static_cast<uint32_t>(it.good_bytes)});
    }
    --network.pieces_under_way;
    network.passed_bytes += length_bytes;
    arbiter_.on_finished(length_bytes);
  }
  let_through();
}

}  // namespace weightpager::serve
