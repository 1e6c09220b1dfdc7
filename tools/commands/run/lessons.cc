#include "tools/commands/run/lessons.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "pager/lessons/kept_lesson.h"
#include "pager/lessons/lesson_record.h"
#include "pager/lessons/lesson_shelf.h"
#include "tools/cli/cli.h"
#include "tools/report/report_file.h"

namespace weightpager::tools {
namespace {

namespace fs = std::filesystem;

/// What a process left that gave up its rights is not for this user to begin with.
bool is_own(const fs::path& path) {
  struct stat facts;
  return lstat(path.c_str(), &facts) == 0 && facts.st_uid == geteuid();
}

Status keep(const std::string& record_path, const std::string& lesson_directory) {
  const auto record = lessons::LessonRecord::open(record_path);
  if (!record) return tl::make_unexpected(record.error());
  const auto text = (*record)->text();
  if (!text) return {};
  const auto lesson = lessons::parse_lesson(*text, record_path);
  if (!lesson) return tl::make_unexpected(lesson.error());
  std::error_code ignored;
  fs::create_directories(lesson_directory, ignored);
  auto file =
      ReportFile::create(lessons::lesson_path(lesson_directory, lesson->chunk_bytes, lesson->files),
                         "what was learned:");
  if (!file) return forward_error(std::move(file));
  return file->commit(*text);
}

}  // namespace

void keep_lessons(const std::string& run_directory, const std::string& lesson_directory) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(run_directory, ignored)) {
    if (entry.path().extension() != ".lesson" || !is_own(entry.path())) continue;
    if (auto kept = keep(entry.path().string(), lesson_directory); !kept) print_error(kept.error());
  }
}

}  // namespace weightpager::tools
