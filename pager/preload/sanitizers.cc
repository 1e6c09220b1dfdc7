// Engines that are built with AddressSanitizer.
//
// The sanitizer's runtime ends the process if a library was loaded before it, as preloaded
// libraries are, because another library could answer calls that the runtime must see. The
// interposer passes its calls on to the runtime: it looks up the next function of the name behind
// itself, where the runtime is. So the interposer may tell the runtime that the order is right. It
// does that in the way that the runtime has for programs: by a function that the runtime calls
// first of all, and that the dynamic linker finds here. (ASAN_OPTIONS takes precedence.)
#define WP_INTERPOSE extern "C" __attribute__((visibility("default")))

WP_INTERPOSE const char* __asan_default_options() { return "verify_asan_link_order=0"; }
