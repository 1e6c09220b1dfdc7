// A CUDA driver of two devices that nobody has: libcuda.so.1 for a test of who reads it. It answers
// the seven calls that weightpager makes, in the driver's documented binary interface. With
// FAKE_CUDA_ERROR set, starting it fails with CUDA_ERROR_NO_DEVICE.
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr int success = 0;
constexpr int no_device = 100;
constexpr int invalid_device = 101;
constexpr int device_count = 2;
constexpr int first_device = 10;

}  // namespace

extern "C" {

int cuInit(unsigned) { return std::getenv("FAKE_CUDA_ERROR") ? no_device : success; }

int cuGetErrorName(int error, const char** name) {
  *name = error == no_device ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_UNKNOWN";
  return success;
}

int cuDeviceGetCount(int* count) {
  *count = device_count;
  return success;
}

int cuDeviceGet(int* device, int ordinal) {
  if (ordinal < 0 || ordinal >= device_count) return invalid_device;
  *device = first_device + ordinal;
  return success;
}

int cuDeviceGetName(char* name, int length, int device) {
  std::snprintf(name, static_cast<size_t>(length), "Imaginary %d", device - first_device);
  return success;
}

int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  *bytes = static_cast<size_t>(device - first_device + 1) << 30;
  return success;
}

// The first device has all that is asked for; the second maps host memory, and no more.
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  constexpr int can_map_host_memory = 19;
  *value = device == first_device || attribute == can_map_host_memory;
  return success;
}

}  // extern "C"
