// What the first bytes of a program's file say about LD_PRELOAD, on files that are made here.
#include "pager/base/program_file.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

namespace weightpager {
namespace {

namespace fs = std::filesystem;

class ProgramFileTest : public testing::Test {
 protected:
  ProgramFileTest() { fs::create_directories(folder_); }
  ~ProgramFileTest() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& bytes) const {
    const fs::path path = folder_ / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }
  ProgramFile look(const std::string& bytes) const {
    return program_behind(write("program", bytes).c_str());
  }

  const fs::path folder_ = fs::temp_directory_path() / ("program_file_" + std::to_string(getpid()));
};

template <typename Part>
std::string bytes_of(const Part& part) {
  return {reinterpret_cast<const char*>(&part), sizeof part};
}

/// A program with one segment of this type, whose bytes follow the headers.
std::string program_with(uint32_t type, const std::string& bytes) {
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_machine = EM_X86_64;
  header.e_phoff = sizeof header;
  header.e_phnum = 1;
  Elf64_Phdr segment = {};
  segment.p_type = type;
  segment.p_offset = sizeof header + sizeof segment;
  segment.p_filesz = bytes.size();
  return bytes_of(header) + bytes_of(segment) + bytes;
}

const std::string glibc_loader("/lib64/ld-linux-x86-64.so.2\0", 28);

TEST_F(ProgramFileTest, TheLoaderSaysWhetherALibraryGetsIn) {
  const ProgramFile fit = look(program_with(PT_INTERP, glibc_loader));
  EXPECT_EQ(fit.preloading, Preloading::works);
  EXPECT_STREQ(fit.loader, "/lib64/ld-linux-x86-64.so.2");
  EXPECT_FALSE(fit.is_script());
  EXPECT_EQ(look(program_with(PT_INTERP, "/nix/store/x-glibc/lib/ld-linux-x86-64.so.2")).preloading,
            Preloading::works);
  EXPECT_EQ(look(program_with(PT_INTERP, "/lib/ld-musl-x86_64.so.1")).preloading,
            Preloading::other_c_library);
  EXPECT_EQ(look(program_with(PT_LOAD, "")).preloading, Preloading::static_linked);
}

TEST_F(ProgramFileTest, OtherMachinesAreToldApart) {
  std::string bytes = program_with(PT_INTERP, glibc_loader);
  bytes[offsetof(Elf64_Ehdr, e_machine)] = static_cast<char>(EM_AARCH64);
  EXPECT_EQ(look(bytes).preloading, Preloading::other_machine);
  bytes[EI_CLASS] = ELFCLASS32;
  EXPECT_EQ(look(bytes).preloading, Preloading::narrow);
}

TEST_F(ProgramFileTest, TheLoaderItselfLoadsLibraries) {
  const std::string path = write("ld-linux-x86-64.so.2", program_with(PT_LOAD, ""));
  EXPECT_EQ(program_behind(path.c_str()).preloading, Preloading::works);
}

TEST_F(ProgramFileTest, GoLeavesANote) {
  const Elf64_Nhdr note = {4, 4, 4};
  EXPECT_TRUE(look(program_with(PT_NOTE, bytes_of(note) + std::string("Go\0\0id..", 8))).is_go);
  EXPECT_FALSE(look(program_with(PT_NOTE, bytes_of(note) + std::string("GNU\0id..", 8))).is_go);
  EXPECT_FALSE(look(program_with(PT_NOTE, std::string("Go\0\0", 4))).is_go);
}

TEST_F(ProgramFileTest, ScriptsLeadToWhoReadsThem) {
  const std::string reader = write("reader", program_with(PT_LOAD, ""));
  const std::string script = write("script", "#! " + reader + " \t-x  y \nbody");
  const ProgramFile found = program_behind(script.c_str());
  EXPECT_EQ(found.preloading, Preloading::static_linked);
  EXPECT_EQ(found.interpreter, reader);
  EXPECT_STREQ(found.argument, "-x  y");
  const std::string outer = write("outer", "#!" + script + "\n");
  EXPECT_EQ(program_behind(outer.c_str()).preloading, Preloading::static_linked);
  EXPECT_EQ(program_behind(outer.c_str()).interpreter, reader);
  // A script that reads itself has an end, too.
  const std::string round = (folder_ / "round").string();
  write("round", "#!" + round + "\n");
  EXPECT_EQ(program_behind(round.c_str()).preloading, Preloading::works);
}

TEST_F(ProgramFileTest, WhatTellsNothingPasses) {
  EXPECT_EQ(look("").preloading, Preloading::works);
  EXPECT_EQ(look("#!").preloading, Preloading::works);
  EXPECT_EQ(look("plain text").preloading, Preloading::works);
  EXPECT_EQ(look(std::string(ELFMAG) + "\2").preloading, Preloading::works);
  EXPECT_EQ(program_behind("/nowhere").preloading, Preloading::works);
}

}  // namespace
}  // namespace weightpager
