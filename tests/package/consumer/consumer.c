/* A stranger's C program: maps a file through a pager and finds in it what read() finds.
 * Usage: consumer FILE. Prints the library's version; 77 where this user may not have a pager. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weightpager/weightpager.h>

static int complain(const char* what) {
  const int rights_are_missing = errno == EPERM || errno == EACCES;
  fprintf(stderr, "%s: %s\n", what, weightpager_error());
  return rights_are_missing ? 77 : 1;
}

static int same_bytes(const char* path, const unsigned char* mapped, uint64_t length_bytes) {
  unsigned char* expected = malloc(length_bytes + 1);
  FILE* file = fopen(path, "rb");
  const int same = expected && file && fread(expected, 1, length_bytes + 1, file) == length_bytes &&
                   memcmp(expected, mapped, length_bytes) == 0;
  if (file) fclose(file);
  free(expected);
  return same;
}

int main(int argc, char** argv) {
  const weightpager_options options = {.struct_bytes = sizeof options, .window_bytes = 32u << 20};
  weightpager_pager* pager = NULL;
  uint64_t length_bytes = 0;
  if (argc != 2) return 2;
  if (weightpager_open(&options, &pager) != 0) return complain("weightpager_open");
  const void* mapped = weightpager_map(pager, argv[1], &length_bytes);
  if (!mapped) return complain(argv[1]);
  const int same = same_bytes(argv[1], mapped, length_bytes);
  weightpager_close(pager);
  if (!same) return fprintf(stderr, "%s: other bytes than read() gives\n", argv[1]), 1;
  puts(weightpager_version());
  return 0;
}
