#include "pager/profiles/stored_access_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <numeric>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "pager/base/assert.h"
#include "pager/base/units.h"
#include "pager/model/strict_json.h"

namespace weightpager::profiles {
namespace {

using model::JsonPath;
using model::JsonScalar;

constexpr uint64_t access_profile_version = 1;
constexpr const char* version_key = "weightpager_access_profile";
// A day: nobody computes longer from a chunk.
constexpr uint64_t computed_ns_max = 86'400'000'000'000;
constexpr uint32_t no_file = UINT32_MAX;
// A pass comes back to some chunks (policy/pass_order.h).
constexpr uint64_t visits_of_each_max = 4;

uint64_t chunks_of(const ProfiledFile& file, uint64_t chunk_bytes) {
  return file.size_bytes / chunk_bytes + (file.size_bytes % chunk_bytes != 0);
}

class AccessProfileHandler final : public model::JsonHandler {
 public:
  StoredAccessProfile access_profile;

  bool on_start(const JsonPath& path, bool is_object) override {
    if (path.empty()) return is_object || refuse("an access profile", "an array");
    const bool is_list = path.size() == 1 && (path[0] == "files" || path[0] == "pass");
    if (is_list && !is_object) return true;
    if (path.size() == 2 && path[0] == "files" && is_object) {
      access_profile.files.emplace_back();
      return true;
    }
    if (path.size() == 2 && path[0] == "pass" && !is_object) {
      numbers_.clear();
      return true;
    }
    return refuse("the fields of an access profile", path.back());
  }

  bool on_end(const JsonPath& path) override {
    if (path.empty())
      return has_version_ || refuse("a weightpager_access_profile of version 1", "none");
    if (path.size() != 2 || path[0] != "pass") return true;
    if (numbers_.size() != 4) return refuse("runs of four numbers", "another");
    for (size_t at = 0; at < 3; ++at) {
      if (numbers_[at] > UINT32_MAX) return refuse("a number below 2^32", number_text(at));
    }
    if (numbers_[3] > computed_ns_max) return refuse("less than a day", number_text(3));
    access_profile.runs.push_back(
        {static_cast<uint32_t>(numbers_[0]), static_cast<uint32_t>(numbers_[1]),
         static_cast<uint32_t>(numbers_[2]), static_cast<float>(numbers_[3])});
    return true;
  }

  bool on_scalar(const JsonPath& path, const JsonScalar& value) override {
    const auto* const number = std::get_if<uint64_t>(&value);
    const auto* const text = std::get_if<std::string>(&value);
    const auto is_at = [&](size_t depth, const char* first, const char* last) {
      return path.size() == depth && path.front() == first && path.back() == last;
    };
    if (is_at(1, version_key, version_key)) {
      has_version_ = number != nullptr && *number == access_profile_version;
      return has_version_ || refuse("an access profile of version 1", model::describe(value));
    }
    if (is_at(1, "chunk_bytes", "chunk_bytes") && number != nullptr) {
      access_profile.chunk_bytes = *number;
      return true;
    }
    if (is_at(3, "files", "name") && text != nullptr) {
      access_profile.files.back().name = *text;
      return true;
    }
    if (is_at(3, "files", "layout") && text != nullptr) {
      const char* const end = text->data() + text->size();
      const auto read = std::from_chars(text->data(), end, access_profile.files.back().layout, 16);
      const bool is_whole = read.ec == std::errc() && read.ptr == end;
      return is_whole || refuse("a number of hexadecimal digits", model::describe(value));
    }
    if (is_at(3, "files", "size_bytes") && number != nullptr) {
      access_profile.files.back().size_bytes = *number;
      return true;
    }
    if (is_at(3, "pass", "[]") && number != nullptr) {
      numbers_.push_back(*number);
      return true;
    }
    return refuse("the fields of an access profile",
                  path.empty() ? model::describe(value) : path.back());
  }

 private:
  std::string number_text(size_t at) const { return std::to_string(numbers_[at]); }

  bool has_version_ = false;
  std::vector<uint64_t> numbers_;  // of the run that is being read
};

// What the JSON cannot say by itself; "" if nothing is wrong.
std::string fault_in(const StoredAccessProfile& access_profile) {
  if (!is_chunk_size(access_profile.chunk_bytes)) return "the size of a chunk is none";
  if (access_profile.files.empty() || access_profile.runs.empty()) return "nothing was learned";
  for (const ProfiledRun& run : access_profile.runs) {
    const bool is_inside =
        run.file < access_profile.files.size() && run.chunks > 0 &&
        uint64_t{run.first_chunk} + run.chunks <=
            chunks_of(access_profile.files[run.file], access_profile.chunk_bytes);
    if (!is_inside) return "a run of chunks lies beyond its file";
  }
  uint64_t visits = 0;
  for (const ProfiledRun& run : access_profile.runs) visits += run.chunks;
  uint64_t chunks = 0;
  for (const ProfiledFile& file : access_profile.files) {
    chunks += chunks_of(file, access_profile.chunk_bytes);
  }
  if (visits > visits_of_each_max * chunks) return "a pass has more visits than chunks allow";
  return "";
}

}  // namespace

ProfiledFile profiled_file(const std::string& name, uint64_t size_bytes,
                           const model::Model& model) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  const auto add_text = [&](const std::string& text) {
    XXH3_64bits_update(&state, text.c_str(), text.size() + 1);
  };
  const auto add_number = [&](uint64_t number) {
    XXH3_64bits_update(&state, &number, sizeof number);
  };
  add_text(model.architecture);
  for (const model::Tensor& tensor : model.tensors) {
    add_text(tensor.name);
    add_text(tensor.type);
    add_number(tensor.shape.size());
    for (const uint64_t extent : tensor.shape) add_number(extent);
    add_number(tensor.offset_bytes);
    add_number(tensor.size_bytes);
  }
  // One that does not say what is in it is known by its name alone.
  if (model.format == model::Format::plain) add_text(name.substr(name.rfind('/') + 1));
  return {name, XXH3_64bits_digest(&state), size_bytes};
}

std::string access_profile_text(const StoredAccessProfile& access_profile) {
  std::string text = fmt::format("{{\"{}\": {}, \"chunk_bytes\": {},\n \"files\": [", version_key,
                                 access_profile_version, access_profile.chunk_bytes);
  const char* between = "\n";
  for (const ProfiledFile& file : access_profile.files) {
    const std::string name =
        nlohmann::json(file.name).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    text += fmt::format("{}  {{\"name\": {}, \"layout\": \"{:016x}\", \"size_bytes\": {}}}",
                        between, name, file.layout, file.size_bytes);
    between = ",\n";
  }
  text += "],\n \"pass\": [";
  between = "\n";
  for (const ProfiledRun& run : access_profile.runs) {
    text += fmt::format("{}  [{}, {}, {}, {:.0f}]", between, run.file, run.first_chunk, run.chunks,
                        run.computed_ns);
    between = ",\n";
  }
  return text + "]}\n";
}

Result<StoredAccessProfile> parse_access_profile(const std::string& text, const std::string& path) {
  const std::string hint = "rm " + path;
  AccessProfileHandler handler;
  if (const auto error = model::parse_strict_json(text, handler)) {
    return fail(fmt::format("{}, byte {}: expected {}, found {}", path, error->offset_bytes,
                            error->expected, error->found),
                hint);
  }
  if (const std::string fault = fault_in(handler.access_profile); !fault.empty()) {
    return fail(path + ": " + fault, hint);
  }
  return std::move(handler.access_profile);
}

policy::AccessProfile access_profile_for(const StoredAccessProfile& kept,
                                         std::span<const NumberedFile> files) {
  // The first of a kind is the first, the second the second.
  std::vector<bool> is_taken(files.size());
  std::vector<uint32_t> numbered(kept.files.size(), no_file);
  for (size_t at = 0; at < kept.files.size(); ++at) {
    for (uint32_t i = 0; i < files.size() && numbered[at] == no_file; ++i) {
      if (is_taken[i] || !files[i].file.is_like(kept.files[at])) continue;
      is_taken[i] = true;
      numbered[at] = i;
    }
  }
  policy::AccessProfile access_profile;
  for (const ProfiledRun& run : kept.runs) {
    if (numbered[run.file] == no_file) continue;
    const policy::ChunkId first = files[numbered[run.file]].first_chunk + run.first_chunk;
    for (uint32_t i = 0; i < run.chunks; ++i) access_profile.order.push_back(first + i);
    access_profile.computed_ns.resize(access_profile.order.size(), run.computed_ns);
  }
  return access_profile;
}

StoredAccessProfile stored_access_profile(const policy::AccessProfile& access_profile,
                                          uint64_t chunk_bytes,
                                          std::span<const NumberedFile> files) {
  StoredAccessProfile kept{.chunk_bytes = chunk_bytes, .files = {}, .runs = {}};
  for (const NumberedFile& it : files) kept.files.push_back(it.file);
  const auto is_in = [&](policy::ChunkId chunk, const NumberedFile& it) {
    return chunk >= it.first_chunk && chunk - it.first_chunk < chunks_of(it.file, chunk_bytes);
  };
  for (size_t at = 0; at < access_profile.order.size(); ++at) {
    const policy::ChunkId chunk = access_profile.order[at];
    const auto found = std::find_if(files.begin(), files.end(),
                                    [&](const NumberedFile& it) { return is_in(chunk, it); });
    WP_ASSERT(found != files.end());
    const auto file = static_cast<uint32_t>(found - files.begin());
    const uint32_t in_file = chunk - found->first_chunk;
    ProfiledRun* const last = kept.runs.empty() ? nullptr : &kept.runs.back();
    const bool goes_on = last != nullptr && last->file == file &&
                         last->first_chunk + last->chunks == in_file &&
                         last->computed_ns == access_profile.computed_ns[at];
    if (goes_on) {
      ++last->chunks;
    } else {
      kept.runs.push_back({file, in_file, 1, access_profile.computed_ns[at]});
    }
  }
  return kept;
}

}  // namespace weightpager::profiles
