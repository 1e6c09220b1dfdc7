/* What a fair comparison with the kernel's mmap needs: weights that stay in the mapping.
 *
 * On many CPUs released llama.cpp copies weights out of the mapping into buffers of another layout ("AMX",
 * "CPU_REPACK"), even F16 ones where the CPU has AMX. Such a process holds the whole model as anonymous
 * memory: inside a limit smaller than the model it is killed, and there is nothing to compare with.
 * Preloaded into the kernel's arm, this library answers that the CPU has no such buffers. Nothing else of
 * weightpager is in that process, so the arm shows the kernel and the engine alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void* get_proc_address(void* reg, const char* name);

/* ggml is loaded with RTLD_LOCAL, so RTLD_NEXT does not see it: the library itself must be asked. */
static get_proc_address* real_get_proc_address(void) {
  void* ggml = dlopen("libggml-base.so", RTLD_LAZY | RTLD_NOLOAD);
  void* found = ggml ? dlsym(ggml, "ggml_backend_reg_get_proc_address") : NULL;
  if (!found) {
    fputs("keep_mapped: libggml-base.so is not loaded: this is not the llama.cpp it was written for\n", stderr);
    abort();
  }
  return (get_proc_address*)found;
}

void* ggml_backend_reg_get_proc_address(void* reg, const char* name) {
  if (strcmp(name, "ggml_backend_dev_get_extra_bufts") == 0) return NULL;
  return real_get_proc_address()(reg, name);
}
