// XXH3, with the code that the library itself chooses for this processor. Code for the instructions
// that compilers assume is about half as fast as with AVX-512. Only x86 has a choice.
#pragma once

#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif
