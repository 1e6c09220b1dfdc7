// An engine that is a library: programs load it with dlopen.
#include "tests/trials/weights.h"

extern "C" __attribute__((visibility("default"))) int trials_library_run(const char* path) {
  const trials::File file = trials::open_file(path);
  const unsigned char* bytes = trials::map(file);
  trials::check_all(file, bytes, 2);
  trials::unmap(bytes, file.size_bytes);
  close(file.fd);
  return 0;
}
