// XXH3, by the library's own choice of code for this processor: what the compiler's baseline allows
// is a third as fast as AVX-512. Only x86 has more than one.
#pragma once

#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif
