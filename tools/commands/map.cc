#include "tools/commands/map.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tools/live/live_process.h"
#include "tools/live/residency.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools {

Command map_description() {
  return {
      .name = "weightpager map",
      .purpose =
          "Shows which bytes of its models a live pager has in memory: a strip for each\n"
          "model and one for each layer, from the first byte to the last. Of memory of\n"
          "the engine's own (run --spill): one for each block, the largest first.\n",
      .usage = "  weightpager map PID [--tensors] [--unicode] [--json]\n",
      .options = {{0, "tensors", "", "show a row for each tensor"},
                  {0, "unicode", "", "strips of blocks instead of letters"},
                  {0, "json", "", "print one JSON object: every model, row by row"}},
      .examples =
          "  weightpager map 4711\n"
          "  weightpager map 4711 --tensors --unicode | less\n"
          "  weightpager map 4711 --json | jq '.models[0].rows[] | select(.pinned_bytes > 0)'\n",
      .exit_status = live_exit_status,
      .operands = Operands::pagers};
}

namespace {

using Json = control::Client::Json;

constexpr size_t screen_columns = 80;
constexpr size_t index_columns = 4;
constexpr size_t map_name_columns = 22;
constexpr size_t figures_columns = sizeof(" 123456 100 100 []");
constexpr size_t strip_columns =
    screen_columns - index_columns - map_name_columns - figures_columns;

struct MappedModel {
  Json facts;           // from `hello`
  const char* by = "";  // what a row is
  std::string states;
  std::vector<Residency> rows;
};

Result<std::vector<MappedModel>> ask_models(control::Client& client, const Json& hello,
                                            const char* by) {
  std::vector<MappedModel> models;
  for (const Json& facts : hello.at("models")) {
    auto states = ask_chunk_states(client, models.size());
    if (!states) return tl::make_unexpected(states.error());
    const char* const kind_of_row = rows_of(facts, by);
    auto rows = ask_residency(client, models.size(), kind_of_row);
    if (!rows) return tl::make_unexpected(rows.error());
    models.push_back({facts, kind_of_row, std::move(*states), std::move(*rows)});
  }
  return models;
}

bool has_blocks(const MappedModel& model) { return std::string_view(model.by) == "block"; }

Json map_row_json(const Residency& row, bool is_block) {
  Json json = {{"name", row.name},
               {"size_bytes", row.size_bytes},
               {"mapped_bytes", row.mapped_bytes},
               {"ready_bytes", row.ready_bytes},
               {"reading_bytes", row.reading_bytes},
               {"absent_bytes", row.absent_bytes},
               {"failed_bytes", row.failed_bytes},
               {"pinned_bytes", row.pinned_bytes},
               {"chunks", row.chunks}};
  if (!is_block) return json;
  json["written_bytes"] = row.written_bytes;
  json["lazy_bytes"] = row.lazy_bytes;
  json["zero_bytes"] = row.zero_bytes;
  json["file"] = row.file.empty() ? Json(nullptr) : Json(row.file);
  json["file_offset_bytes"] = row.file.empty() ? Json(nullptr) : Json(row.file_offset_bytes);
  return json;
}

std::string map_json(const Json& hello, const std::vector<MappedModel>& models, const char* by) {
  Json json = {{"schema_version", 1},
               {"process_id", hello.at("process_id")},
               {"command", hello.at("command")},
               {"chunk_bytes", hello.at("chunk_bytes")},
               {"window_bytes", hello.at("window_bytes")},
               {"by", by},
               {"models", Json::array()}};
  for (const MappedModel& model : models) {
    Json rows = Json::array();
    for (const Residency& row : model.rows) rows.push_back(map_row_json(row, has_blocks(model)));
    json["models"].push_back({{"name", model.facts.at("name")},
                              {"kind", model.facts.value("kind", "file")},
                              {"by", model.by},
                              {"size_bytes", model.facts.at("size_bytes")},
                              {"states", model.states},
                              {"rows", std::move(rows)}});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// The end of a long name says more than its beginning.
std::string cut_to_end(const std::string& name, size_t columns) {
  return name.size() <= columns ? name : "~" + name.substr(name.size() - columns + 1);
}

std::string map_row(size_t index, const Residency& row, std::string_view states,
                    const Glyphs& glyphs) {
  return fmt::format("{:>{}} {:<{}} {:>6.0f} {:>3.0f} {:>3.0f} [{}]\n", index, index_columns,
                     cut_to_end(row.name, map_name_columns), map_name_columns,
                     mebibytes(row.size_bytes), percent(row.resident_bytes(), row.size_bytes),
                     percent(row.pinned_bytes, row.size_bytes),
                     chunk_strip(states_of(row, states), strip_columns, glyphs));
}

/// Most of the addresses of memory have no block, so a strip of all would show nothing.
std::string memory_head(const MappedModel& model) {
  Residency all;
  for (const Residency& row : model.rows) all.add(row);
  return fmt::format(
      "\n{}: {} blocks, {:.0f} MiB\nwritten {:.0f} MiB, of files that were read {:.0f}, zeros "
      "{:.0f}\n",
      model.facts.at("name").get<std::string>(), model.rows.size(), mebibytes(all.size_bytes),
      mebibytes(all.written_bytes), mebibytes(all.lazy_bytes), mebibytes(all.zero_bytes));
}

std::string file_head(const MappedModel& model, const Glyphs& glyphs) {
  const std::filesystem::path path = model.facts.at("name").get<std::string>();
  return fmt::format("\n{}, {:.0f} MiB\n", path.filename().string(),
                     mebibytes(model.facts.at("size_bytes").get<uint64_t>())) +
         chunk_strip(model.states, std::min(screen_columns, model.states.size()), glyphs) + "\n";
}

std::string map_text(const MappedModel& model, const Glyphs& glyphs) {
  std::string text = has_blocks(model) ? memory_head(model) : file_head(model, glyphs);
  if (model.rows.empty()) return text;
  text += fmt::format("\n{:>{}} {:<{}} {:>6} {:>3} {:>3}\n", "#", index_columns,
                      has_blocks(model) ? "block holds" : model.by, map_name_columns, "MiB", "in%",
                      "pin");
  for (size_t i = 0; i < model.rows.size(); ++i) {
    text += map_row(i, model.rows[i], model.states, glyphs);
  }
  return text;
}

int show_map(control::Client& client, const Arguments& arguments) {
  const char* const by = arguments.has("tensors") ? "tensor" : "layer";
  const auto hello = client.ask(request_of("hello"));
  if (!hello) return live_failure(hello.error());
  if (auto has_pager = expect_pager(*hello); !has_pager) return failure(has_pager.error());
  const auto models = ask_models(client, *hello, by);
  if (!models) return live_failure(models.error());
  if (arguments.has("json")) {
    print(stdout, map_json(*hello, *models, by));
    return exit_success;
  }
  const Glyphs& glyphs = arguments.has("unicode") ? unicode_glyphs : ascii_glyphs;
  std::string text = fmt::format(
      "{} (pid {}), window {:.0f} MiB\n{}\n", hello->at("command").get<std::string>(),
      client.process_id(), mebibytes(hello->at("window_bytes").get<uint64_t>()), legend(glyphs));
  for (const MappedModel& model : *models) text += map_text(model, glyphs);
  print(stdout, text);
  return exit_success;
}

}  // namespace

int map_command(const std::vector<std::string>& words) {
  const Command command = map_description();
  return run_live_command(command, words, [&](const Arguments& arguments) -> int {
    auto client = connect_to_operand(command, arguments);
    return client ? show_map(*client, arguments) : client.error();
  });
}

}  // namespace weightpager::tools
