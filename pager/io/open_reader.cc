#include "pager/io/open_reader.h"

#include "pager/base/log.h"

namespace weightpager::io {

Result<std::unique_ptr<Reader>> open_best_reader(const ReaderOptions& options) {
  if (options.reads_are_copies) {
    if (auto threads = open_pread_reader(options)) return threads;
  }
  auto reader = open_uring_reader(options);
  if (reader) return reader;
  notice("io_uring is not available (" + reader.error().message +
         "): reading with threads, a little slower. " + reader.error().hint);
  return open_pread_reader(options);
}

}  // namespace weightpager::io
