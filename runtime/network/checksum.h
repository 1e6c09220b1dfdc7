// XXH3, by the library's own choice of code for this processor: with what compilers assume it is
// about half as fast as with AVX-512. Only x86 has a choice.
#pragma once

#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif
