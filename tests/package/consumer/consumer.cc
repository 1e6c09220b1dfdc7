// A stranger's C++ program: the same as consumer.c by way of weightpager.hpp.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>
#include <weightpager/weightpager.hpp>

static int complain(const char* what) {
  const bool rights_are_missing = errno == EPERM || errno == EACCES;
  std::fprintf(stderr, "%s: %s\n", what, weightpager_error());
  return rights_are_missing ? 77 : 1;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto pager = weightpager::api::Pager::open(32u << 20);
  if (!pager) return complain("Pager::open");
  const auto mapped = pager->map(argv[1]);
  if (mapped.empty()) return complain(argv[1]);
  std::ifstream file(argv[1], std::ios::binary);
  const std::vector<char> expected(std::istreambuf_iterator<char>(file), {});
  const auto* bytes = reinterpret_cast<const char*>(mapped.data());
  if (!std::equal(expected.begin(), expected.end(), bytes, bytes + mapped.size())) {
    std::fprintf(stderr, "%s: other bytes than read() gives\n", argv[1]);
    return 1;
  }
  std::puts(weightpager_version());
}
