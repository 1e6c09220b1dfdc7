#include "pager/base/program_file.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "pager/base/system_calls.h"

namespace weightpager {
namespace {

constexpr size_t note_bytes_max = 4096;
// The kernel follows no more scripts of scripts.
constexpr int scripts_max = 5;

// Beginnings of the names of loaders, but glibc's.
constexpr std::array<std::string_view, 4> other_loaders = {"ld-musl", "ld-uClibc", "ld64-uClibc",
                                                           "linker"};

/// A file that is open for as long as the object is there, by system calls alone.
class OpenedProgram {
 public:
  explicit OpenedProgram(const char* path)
      : fd_(static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC))) {}
  ~OpenedProgram() {
    if (fd_ >= 0) syscall(SYS_close, fd_);
  }
  OpenedProgram(const OpenedProgram&) = delete;
  OpenedProgram& operator=(const OpenedProgram&) = delete;

  size_t read_at(uint64_t offset_bytes, void* to, size_t bytes) const {
    if (fd_ < 0) return 0;
    const ssize_t got = kernel::pread(fd_, to, bytes, static_cast<off_t>(offset_bytes));
    return got > 0 ? static_cast<size_t>(got) : 0;
  }

 private:
  const int fd_;
};

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

void copy_text(std::string_view text, char (&to)[ProgramFile::text_bytes]) {
  to[text.copy(to, sizeof to - 1)] = '\0';
}

std::string_view trimmed(std::string_view text) {
  constexpr const char* blanks = " \t";
  const size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) + 1 - first);
}

/// "#! INTERPRETER ARGUMENT".
void read_first_line(std::string_view head, ProgramFile& file) {
  const std::string_view line = trimmed(head.substr(2, head.find('\n') - 2));
  const size_t end = std::min(line.find_first_of(" \t"), line.size());
  copy_text(line.substr(0, end), file.interpreter);
  copy_text(trimmed(line.substr(end)), file.argument);
}

/// Go leaves a note in every program that it builds: "Go\0\0", behind lengths and type.
bool has_go_note(const OpenedProgram& program, const Elf64_Phdr& segment) {
  char notes[note_bytes_max];
  const size_t bytes =
      program.read_at(segment.p_offset, notes, std::min<uint64_t>(segment.p_filesz, sizeof notes));
  const std::string_view all(notes, bytes);
  const std::string_view name("Go\0\0", 4);
  const Elf64_Word name_bytes = 4;
  for (size_t at = all.find(name); at != std::string_view::npos; at = all.find(name, at + 1)) {
    if (at >= sizeof(Elf64_Nhdr) &&
        std::memcmp(notes + at - sizeof(Elf64_Nhdr), &name_bytes, sizeof name_bytes) == 0)
      return true;
  }
  return false;
}

Preloading preloading_by(std::string_view loader) {
  const std::string_view name = file_name(loader);
  const bool is_other =
      std::any_of(other_loaders.begin(), other_loaders.end(),
                  [&](std::string_view beginning) { return name.starts_with(beginning); });
  return is_other ? Preloading::other_c_library : Preloading::works;
}

void read_segments(const OpenedProgram& program, const Elf64_Ehdr& header, ProgramFile& file) {
  file.preloading = Preloading::static_linked;
  for (size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    const uint64_t at = header.e_phoff + i * sizeof segment;
    if (program.read_at(at, &segment, sizeof segment) != sizeof segment) return;
    if (segment.p_type == PT_NOTE && has_go_note(program, segment)) file.is_go = true;
    if (segment.p_type != PT_INTERP) continue;
    program.read_at(segment.p_offset, file.loader,
                    std::min<uint64_t>(segment.p_filesz, sizeof file.loader - 1));
    file.preloading = preloading_by(file.loader);
  }
}

/// The loader, called by its name, names no loader, but loads the libraries of LD_PRELOAD.
bool is_loader(std::string_view path) { return file_name(path).starts_with("ld-linux"); }

}  // namespace

ProgramFile look_at_program(const char* path) {
  ProgramFile file;
  const OpenedProgram program(path);
  char head[ProgramFile::text_bytes];
  const std::string_view read(head, program.read_at(0, head, sizeof head));
  if (read.starts_with("#!")) {
    read_first_line(read, file);
    return file;
  }
  Elf64_Ehdr header;
  if (read.size() < sizeof header || !read.starts_with(ELFMAG)) return file;
  std::memcpy(&header, head, sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64) {
    file.preloading = Preloading::narrow;
  } else if (header.e_machine != EM_X86_64) {
    file.preloading = Preloading::other_machine;
  } else {
    read_segments(program, header, file);
    if (file.preloading == Preloading::static_linked && is_loader(path))
      file.preloading = Preloading::works;
  }
  return file;
}

ProgramFile program_behind(const char* path) {
  ProgramFile file = look_at_program(path);
  for (int i = 0; i < scripts_max && file.is_script(); ++i) {
    ProgramFile reader = look_at_program(file.interpreter);
    if (!reader.is_script()) {
      std::memcpy(reader.interpreter, file.interpreter, sizeof reader.interpreter);
      std::memcpy(reader.argument, file.argument, sizeof reader.argument);
      return reader;
    }
    file = reader;
  }
  return file;
}

}  // namespace weightpager
