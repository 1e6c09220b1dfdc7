// The C API's streams: the LayerStream class behind a handle. Nothing is decided here. This code
// checks the mistakes that a C caller can make, keeps the layers in the form of the C API, and
// turns errors into errno and a text.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "pager/api/last_error.h"
#include "runtime/pipeline/layer_stream.h"
#include "weightpager/weightpager.h"

using namespace weightpager;
using api::remember;

struct weightpager_stream {
  std::unique_ptr<pipeline::LayerStream> stream;
  std::vector<weightpager_layer> layers;  // the names belong to `stream`
};

namespace {

Result<pipeline::LayerStreamOptions> checked(const char* path,
                                             const weightpager_stream_options& options) {
  if (options.struct_bytes < sizeof(weightpager_stream_options)) {
    return fail("weightpager_stream_options.struct_bytes is too small",
                "set it to sizeof the struct");
  }
  if ((options.layers == nullptr) != (options.layer_count == 0)) {
    return fail("weightpager_stream_options: layers and layer_count contradict each other",
                "give both, or neither for the layers of the model in the file");
  }
  pipeline::LayerStreamOptions it = {.path = path, .window_bytes = options.window_bytes};
  for (uint32_t i = 0; i < options.layer_count; ++i) {
    const weightpager_layer& layer = options.layers[i];
    it.layers.push_back({.name = layer.name == nullptr ? "" : layer.name,
                         .offset_bytes = layer.offset_bytes,
                         .length_bytes = layer.length_bytes});
  }
  return it;
}

int answer(const Status& status) {
  if (status) return 0;
  remember(status.error());
  return -1;
}

}  // namespace

int weightpager_stream_open(const char* path, const weightpager_stream_options* options,
                            weightpager_stream** stream) {
  auto wanted = checked(path, *options);
  if (!wanted) return answer(forward_error(std::move(wanted)));
  auto opened = pipeline::LayerStream::open(std::move(*wanted));
  if (!opened) return answer(forward_error(std::move(opened)));
  *stream = new weightpager_stream{std::move(*opened), {}};
  for (const pipeline::LayerRange& layer : (*stream)->stream->layers()) {
    (*stream)->layers.push_back({layer.name.c_str(), layer.offset_bytes, layer.length_bytes});
  }
  return 0;
}

void weightpager_stream_close(weightpager_stream* stream) { delete stream; }

uint32_t weightpager_stream_layers(const weightpager_stream* stream,
                                   const weightpager_layer** layers) {
  if (layers != nullptr) *layers = stream->layers.data();
  return static_cast<uint32_t>(stream->layers.size());
}

const void* weightpager_stream_acquire(weightpager_stream* stream, uint32_t layer,
                                       uint64_t* length_bytes) {
  const auto bytes = stream->stream->acquire(layer);
  if (!bytes) {
    remember(bytes.error());
    return nullptr;
  }
  *length_bytes = bytes->size();
  return bytes->data();
}

int weightpager_stream_release(weightpager_stream* stream, uint32_t layer) {
  return answer(stream->stream->release(layer));
}

int weightpager_stream_advise(weightpager_stream* stream, weightpager_stream_advice advice,
                              uint32_t layer) {
  switch (advice) {
    case WEIGHTPAGER_STREAM_WILL_NEED:
      return answer(stream->stream->will_need(layer));
    case WEIGHTPAGER_STREAM_LAST_PASS:
      stream->stream->last_pass();
      return 0;
  }
  return answer(fail("weightpager_stream_advise: there is no such advice",
                     "weightpager.h lists them as WEIGHTPAGER_STREAM_…"));
}

void weightpager_stream_get_statistics(const weightpager_stream* stream,
                                       weightpager_stream_statistics* statistics) {
  const pipeline::LayerStreamStatistics counted = stream->stream->statistics();
  const weightpager_stream_statistics it = {.struct_bytes = statistics->struct_bytes,
                                            .window_bytes = counted.window_bytes,
                                            .read_bytes = counted.read_bytes,
                                            .stall_ns = counted.stall_ns,
                                            .passes = counted.passes};
  std::memcpy(statistics, &it, std::min<size_t>(statistics->struct_bytes, sizeof it));
}
