// A file system of some MiB, to see what becomes of files on a disk that is full.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace weightpager::spill {

/// A file system of its own, `size` large, in a file of `folder`.
class SmallDisk {
 public:
  SmallDisk(const std::string& folder, const std::string& size) : path_(folder + "/disk") {
    std::filesystem::create_directory(path_);
    const std::string image = folder + "/image";
    const std::string script = "exec 2>&1; truncate -s " + size + " '" + image +
                               "' && mkfs.ext4 -q -m 0 '" + image + "' && mount -o loop '" + image +
                               "' '" + path_ + "'";
    is_mounted_ = system((script + " > /dev/null").c_str()) == 0;
  }
  ~SmallDisk() {
    if (is_mounted_ && system(("umount '" + path_ + "'").c_str()) != 0) ADD_FAILURE() << path_;
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool is_mounted() const { return is_mounted_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool is_mounted_ = false;
};

}  // namespace weightpager::spill
