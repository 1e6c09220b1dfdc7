#include "runtime/infer/image.h"

#include <fmt/format.h>
#include <stb_image.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "pager/base/assert.h"
#include "pager/base/memory_room.h"

namespace weightpager::infer {
namespace {

// Larger pictures are a mistake or an attack: 16,384 × 16,384.
constexpr uint64_t pixels_max = 1 << 28;

Image blank(uint32_t channels, uint32_t width, uint32_t height, float value) {
  const network::Shape shape{channels, height, width};
  return {shape, std::vector<float>(shape.elements(), value)};
}

// A position between two neighbours of `length` pixels.
struct Between {
  uint32_t before = 0;
  float share_of_next = 0;
};
Between between(uint32_t index, float scale, uint32_t length) {
  const float position = static_cast<float>(index) * scale;
  const uint32_t before = std::min(static_cast<uint32_t>(position), length - 1);
  return {before, position - static_cast<float>(before)};
}

float scale_of(uint32_t from, uint32_t to) {
  return to > 1 ? static_cast<float>(from - 1) / static_cast<float>(to - 1) : 0;
}

void resize_row(const float* from, uint32_t from_width, float* to, uint32_t width) {
  const float scale = scale_of(from_width, width);
  for (uint32_t x = 0; x + 1 < width; ++x) {
    const auto [before, share] = between(x, scale, from_width);
    to[x] = before + 1 < from_width ? (1 - share) * from[before] + share * from[before + 1]
                                    : from[from_width - 1];
  }
  to[width - 1] = from[from_width - 1];
}

// As in Darknet, the last row gets no share of a next row, even where rounding has put it slightly
// before the picture's last row.
void resize_columns(const float* from, uint32_t from_height, float* to, uint32_t width,
                    uint32_t height) {
  const float scale = scale_of(from_height, height);
  for (uint32_t y = 0; y < height; ++y) {
    const auto [before, share] = between(y, scale, from_height);
    const float* row = from + uint64_t{before} * width;
    float* line = to + uint64_t{y} * width;
    for (uint32_t x = 0; x < width; ++x) line[x] = (1 - share) * row[x];
    if (y + 1 == height || before + 1 >= from_height) continue;
    for (uint32_t x = 0; x < width; ++x) line[x] += share * row[width + x];
  }
}

// stb_image reads a file through this. In most formats it takes bytes that are missing at a file's
// end for black and reports no error; this class notices them. stb_image asks for bytes in two
// ways: into a buffer of its own, which the last bytes need not fill, or straight into the picture,
// and then all of them have to be there.
class Source {
 public:
  explicit Source(std::FILE* file) : file_(file) {}

  bool is_cut_off() const { return is_cut_off_; }
  static stbi_io_callbacks callbacks() { return {&read, &skip, &is_at_end}; }

 private:
  static int read(void* source, char* to, int wanted) {
    auto* it = static_cast<Source*>(source);
    // The first bytes that stb_image asks for always go into its buffer.
    if (it->buffer_ == nullptr) it->buffer_ = to;
    const size_t got = std::fread(to, 1, static_cast<size_t>(wanted), it->file_);
    const size_t least = to == it->buffer_ ? 1 : static_cast<size_t>(wanted);
    if (got < least) it->is_cut_off_ = true;
    return static_cast<int>(got);
  }
  static void skip(void* source, int bytes) {
    std::fseek(static_cast<Source*>(source)->file_, bytes, SEEK_CUR);
  }
  static int is_at_end(void* source) { return std::feof(static_cast<Source*>(source)->file_); }

  std::FILE* file_;
  char* buffer_ = nullptr;
  bool is_cut_off_ = false;
};

Result<Image> decode(std::FILE* file, const std::string& path, uint32_t channels) {
  const stbi_io_callbacks callbacks = Source::callbacks();
  int width = 0;
  int height = 0;
  int channels_there = 0;
  const auto not_an_image = [&](const char* why) {
    return fail(fmt::format("{}: no picture that can be read: {}", path, why),
                "PNG, JPEG, PPM and BMP are; `convert IN OUT.png` makes one of most others");
  };
  Source head(file);
  if (stbi_info_from_callbacks(&callbacks, &head, &width, &height, &channels_there) == 0) {
    return not_an_image(stbi_failure_reason());
  }
  if (width < 1 || height < 1 || static_cast<uint64_t>(width) * height > pixels_max) {
    return fail(fmt::format("{}: a picture of {} x {} pixels, {} are the most", path, width, height,
                            pixels_max),
                "scale it down first: `convert IN -resize 4096x4096 OUT.png`");
  }
  // Memory for the decoded picture, for the picture as floats, and for the decoder, which needs
  // about as much as the decoded picture.
  const uint64_t pixels = static_cast<uint64_t>(width) * height;
  Status fits =
      check_room({.what = fmt::format("{}: a picture of {} x {} pixels", path, width, height),
                  .bytes = pixels * channels * (2 + sizeof(float))},
                 "scale it down first: `convert IN -resize 4096x4096 OUT.png`");
  if (!fits) return forward_error(std::move(fits));
  std::rewind(file);
  Source source(file);
  const std::unique_ptr<stbi_uc, decltype(&stbi_image_free)> bytes(
      stbi_load_from_callbacks(&callbacks, &source, &width, &height, &channels_there,
                               static_cast<int>(channels)),
      &stbi_image_free);
  if (bytes == nullptr) return not_an_image(stbi_failure_reason());
  if (source.is_cut_off()) return not_an_image("the file ends in the middle of it");
  Image image = blank(channels, static_cast<uint32_t>(width), static_cast<uint32_t>(height), 0);
  for (uint64_t pixel = 0; pixel < pixels; ++pixel) {
    for (uint32_t channel = 0; channel < channels; ++channel) {
      image.values[channel * pixels + pixel] =
          static_cast<float>(bytes.get()[pixel * channels + channel] / 255.0);
    }
  }
  return image;
}

}  // namespace

Result<Image> read_image(const std::string& path, uint32_t channels) {
  if (channels != 1 && channels != 3) {
    return fail(
        fmt::format("{}: the network wants pictures of {} channels; only grey (1) and colour "
                    "(3) can be made of a picture",
                    path, channels),
        "check `channels=` in the .cfg's [net] section");
  }
  const std::unique_ptr<std::FILE, decltype(&std::fclose)> file(std::fopen(path.c_str(), "rbe"),
                                                                &std::fclose);
  if (file == nullptr) {
    return fail(fmt::format("{}: cannot be opened: {}", path, std::strerror(errno)), {}, errno);
  }
  return decode(file.get(), path, channels);
}

Image resize(const Image& image, uint32_t width, uint32_t height) {
  WP_ASSERT(width >= 1 && height >= 1 && !image.values.empty());
  const network::Shape& from = image.shape;
  Image resized = blank(from.channels, width, height, 0);
  std::vector<float> narrowed(uint64_t{from.height} * width);
  for (uint32_t channel = 0; channel < from.channels; ++channel) {
    const float* plane = image.values.data() + uint64_t{channel} * from.height * from.width;
    for (uint32_t y = 0; y < from.height; ++y) {
      resize_row(plane + uint64_t{y} * from.width, from.width,
                 narrowed.data() + uint64_t{y} * width, width);
    }
    resize_columns(narrowed.data(), from.height,
                   resized.values.data() + uint64_t{channel} * height * width, width, height);
  }
  return resized;
}

Size letterboxed(Size picture, Size box) {
  const bool is_wide = static_cast<float>(box.width) / static_cast<float>(picture.width) <
                       static_cast<float>(box.height) / static_cast<float>(picture.height);
  // Even a line that is one pixel wide keeps one pixel.
  if (is_wide) {
    return {box.width, std::max(1u, static_cast<uint32_t>(uint64_t{picture.height} * box.width /
                                                          picture.width))};
  }
  return {
      std::max(1u, static_cast<uint32_t>(uint64_t{picture.width} * box.height / picture.height)),
      box.height};
}

Image letterbox(const Image& image, uint32_t width, uint32_t height) {
  const auto [inner_width, inner_height] =
      letterboxed({image.shape.width, image.shape.height}, {width, height});
  const Image resized = resize(image, inner_width, inner_height);
  Image boxed = blank(image.shape.channels, width, height, 0.5f);
  const uint32_t left = (width - inner_width) / 2;
  const uint32_t top = (height - inner_height) / 2;
  for (uint32_t channel = 0; channel < image.shape.channels; ++channel) {
    for (uint32_t y = 0; y < inner_height; ++y) {
      const float* from =
          resized.values.data() + (uint64_t{channel} * inner_height + y) * inner_width;
      std::copy(from, from + inner_width,
                boxed.values.data() + (uint64_t{channel} * height + top + y) * width + left);
    }
  }
  return boxed;
}

}  // namespace weightpager::infer
