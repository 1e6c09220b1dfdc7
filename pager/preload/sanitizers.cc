// Engines that are built with AddressSanitizer.
//
// Its runtime ends the process if any library was loaded before it, as preloaded ones are, because
// functions that it answers for would be others'. Those that are answered here go on to it: libc's
// function of a name is looked up behind this library, where the runtime is. So it is told that the
// order is right, in the way that it has for programs: a function which it calls first of all, and
// which the dynamic linker finds here. (What stands in ASAN_OPTIONS counts more.)
#define WP_INTERPOSE extern "C" __attribute__((visibility("default")))

WP_INTERPOSE const char* __asan_default_options() { return "verify_asan_link_order=0"; }
