// `weightpager reproduce`: the figures and tables of the papers that weightpager implements, as
// SVG, Markdown, CSV and JSON, and one page that shows them.
//
// For PAPER, DIR gets PAPER.html and PAPER.md with everything, and for each figure or table files
// of its name: NAME.json, and NAME.csv and NAME.svg for each of its tables and pictures (numbered
// from the second on).
#include "tools/commands/reproduce/reproduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/network/synthetic/description.h"
#include "tools/arguments/device_argument.h"
#include "tools/arguments/number_argument.h"
#include "tools/cli/version.h"
#include "tools/commands/reproduce/paper.h"
#include "tools/report/html_text.h"
#include "tools/report/report_file.h"
#include "tools/terminal/figures.h"
#include "tools/terminal/progress_line.h"

namespace weightpager::tools {
namespace {

namespace fs = std::filesystem;

constexpr int reproduce_schema_version = 1;
// Of the names of figures.
constexpr int name_columns = 14;

std::vector<Paper> papers() {
  return {demand_layering_paper(), activation_sharing_paper(), taso_paper(), swapnet_paper()};
}

std::vector<std::string> paper_names() {
  std::vector<std::string> names;
  for (const Paper& paper : papers()) names.push_back(paper.name);
  return names;
}

std::vector<std::string> figure_names(const Paper& paper) {
  std::vector<std::string> names;
  for (const Figure& figure : paper.figures) names.push_back(figure.name);
  return names;
}

}  // namespace

Command reproduce_description() {
  return {.name = "weightpager reproduce",
          .purpose =
              "Makes the figures and tables of a paper again, from the paper's own numbers and\n"
              "beside its published values; and, where the list says so, from this machine.\n",
          .usage = "  weightpager reproduce PAPER [FIGURE…] -o DIR [OPTIONS]\n",
          .options = {{'o', "output", "DIR", "the folder for pictures, tables and PAPER.html"},
                      {0, "list", "", "list the figures and tables, and make none"},
                      {0, "layers", "R/C/K[/MIB],…",
                       "figures 10 and 11: the layers' read, copy and\n"
                       "kernel times in ms, and their sizes (1)"},
                      {0, "net", "NAME",
                       "demand-layering, on this machine: a network of `model make`\n"
                       "(each figure has its own)"},
                      device_option(),
                      {0, "threads", "N", "threads that compute (one per processor)"},
                      {0, "quick", "", "fewer points of each curve, smaller networks"}},
          .examples =
              "  weightpager reproduce demand-layering --list\n"
              "  weightpager reproduce demand-layering -o paper\n"
              "  weightpager reproduce demand-layering figure-10 --layers 2/1/3,4/1/2 -o dir\n"
              "  weightpager reproduce demand-layering table-2-here --net resnet152 -o dir\n"
              "Papers: demand-layering, activation-sharing, taso, swapnet.\n",
          .exit_status = "  0 made, 1 a file cannot be written or read, 2 misuse\n"};
}

namespace {

struct ReproduceOptions {
  Paper paper;
  std::vector<Figure> figures;
  std::string directory;
  bool is_list = false;
  ReproduceSettings settings;
};

Result<GivenLayer> parse_layer(const std::string& text) {
  const std::vector<std::string> words = split_at(text, '/');
  if (words.size() != 3 && words.size() != 4) {
    return fail(fmt::format("--layers {}: expected three times or three times and a size", text),
                "--layers 2/1/3,4/1/2/0.5: read, copy and kernel in ms, and MiB");
  }
  constexpr NumberRange sizes_mib = {1e-3, 1e6};
  GivenLayer layer;
  double* const values[] = {&layer.read_ms, &layer.copy_ms, &layer.kernel_ms, &layer.size_mib};
  for (size_t i = 0; i < words.size(); ++i) {
    const auto value = parse_number(words[i], "--layers", i == 3 ? sizes_mib : times_ms);
    if (!value) return tl::make_unexpected(value.error());
    *values[i] = *value;
  }
  return layer;
}

Result<std::vector<GivenLayer>> parse_layers(const Arguments& arguments) {
  std::vector<GivenLayer> layers;
  if (!arguments.has("layers")) return layers;
  for (const std::string& text : split_at(*arguments.value("layers"), ',')) {
    const auto layer = parse_layer(text);
    if (!layer) return tl::make_unexpected(layer.error());
    layers.push_back(*layer);
  }
  constexpr size_t layers_max = 64;  // more bars than that nobody can tell apart
  if (layers.size() > layers_max) {
    return fail(
        fmt::format("--layers has {} layers, and a picture shows {}", layers.size(), layers_max));
  }
  return layers;
}

tl::unexpected<Error> not_found(const std::string& what, const std::string& name,
                                const std::vector<std::string>& names) {
  const std::string near = nearest(name, names);
  return fail(fmt::format("there is no {} {}", what, name),
              near.empty() ? fmt::format("one of: {}", fmt::join(names, ", "))
                           : fmt::format("did you mean {}?", near));
}

Result<Paper> find_paper(const std::string& name) {
  for (Paper& paper : papers()) {
    if (paper.name == name) return std::move(paper);
  }
  return not_found("paper", name, paper_names());
}

/// All figures of the paper, or those that `names` name.
Result<std::vector<Figure>> find_figures(const Paper& paper, std::span<const std::string> names) {
  if (names.empty()) return paper.figures;
  std::vector<Figure> found;
  for (const std::string& name : names) {
    const auto figure = std::find_if(paper.figures.begin(), paper.figures.end(),
                                     [&](const Figure& it) { return it.name == name; });
    if (figure == paper.figures.end())
      return not_found("figure or table", name, figure_names(paper));
    found.push_back(*figure);
  }
  return found;
}

/// What figures of this machine are measured with.
Status read_machine_settings(const Arguments& arguments, ReproduceSettings& settings) {
  settings.network = arguments.value("net").value_or("");
  if (!settings.network.empty()) {
    const auto known = network::make_description(settings.network);
    if (!known) return tl::make_unexpected(known.error());
  }
  const auto device = parse_device(arguments);
  if (!device) return tl::make_unexpected(device.error());
  settings.device = *device;
  const auto threads = parse_threads(arguments);
  if (!threads) return tl::make_unexpected(threads.error());
  settings.threads = *threads;
  return {};
}

Result<ReproduceOptions> read_reproduce_options(const Arguments& arguments) {
  const std::vector<std::string>& operands = arguments.operands();
  if (operands.empty()) {
    return fail("which paper?", fmt::format("one of: {}", fmt::join(paper_names(), ", ")));
  }
  ReproduceOptions options;
  auto paper = find_paper(operands[0]);
  if (!paper) return forward_error(std::move(paper));
  options.paper = std::move(*paper);
  auto figures = find_figures(options.paper, std::span(operands).subspan(1));
  if (!figures) return forward_error(std::move(figures));
  options.figures = std::move(*figures);
  auto layers = parse_layers(arguments);
  if (!layers) return forward_error(std::move(layers));
  options.is_list = arguments.has("list");
  options.directory = arguments.value("output").value_or("");
  options.settings = {.is_quick = arguments.has("quick"),
                      .layers = std::move(*layers),
                      .directory = options.directory};
  if (Status read = read_machine_settings(arguments, options.settings); !read)
    return forward_error(std::move(read));
  if (options.directory.empty() && !options.is_list) {
    return fail("--output is missing", "-o DIR says where the figures go; --list makes none");
  }
  return options;
}

/// "figure-13", and "figure-13-2" for the second.
std::string numbered(const std::string& name, size_t index) {
  return index == 0 ? name : fmt::format("{}-{}", name, index + 1);
}

Status write_file(const fs::path& path, const std::string& text) {
  auto file = ReportFile::create(path.string(), "--output");
  if (!file) return forward_error(std::move(file));
  return file->commit(text);
}

std::string json_of(const Figure& figure, const Reproduction& made) {
  nlohmann::ordered_json json = {{"schema_version", reproduce_schema_version},
                                 {"weightpager_commit", version_commit()},
                                 {"name", figure.name},
                                 {"title", figure.title},
                                 {"tables", nlohmann::ordered_json::array()},
                                 {"lacks", made.lacks}};
  for (const Table& table : made.tables) {
    json["tables"].push_back({{"title", table.title},
                              {"columns", table.columns},
                              {"rows", table.rows},
                              {"note", table.note}});
  }
  return json.dump(2) + "\n";
}

Status write_figure(const fs::path& directory, const Figure& figure, const Reproduction& made) {
  for (size_t i = 0; i < made.tables.size(); ++i) {
    const fs::path path = directory / (numbered(figure.name, i) + ".csv");
    if (auto written = write_file(path, csv_of(made.tables[i])); !written) return written;
  }
  for (const Picture& picture : made.pictures) {
    const fs::path path = directory / (picture.name + ".svg");
    if (auto written = write_file(path, picture.svg); !written) return written;
  }
  return write_file(directory / (figure.name + ".json"), json_of(figure, made));
}

/// Both pages of a paper, which grow with each figure.
struct Pages {
  std::string markdown;
  std::string html;
};

std::string html_of(const Table& table) {
  std::string html = fmt::format("<table><caption>{}</caption>\n<tr>", html_text(table.title));
  for (const std::string& column : table.columns) {
    html += fmt::format("<th>{}</th>", html_text(column));
  }
  html += "</tr>\n";
  for (const auto& row : table.rows) {
    html += "<tr>";
    for (const std::string& cell : row) html += fmt::format("<td>{}</td>", html_text(cell));
    html += "</tr>\n";
  }
  html += "</table>\n";
  if (!table.note.empty()) html += fmt::format("<p>{}</p>\n", html_text(table.note));
  return html;
}

void add_to(Pages& pages, const Figure& figure, const Reproduction& made) {
  pages.markdown += fmt::format("## {}: {}\n\n", figure.name, figure.title);
  pages.html += fmt::format("<h2 id=\"{0}\">{0}: {1}</h2>\n", figure.name, html_text(figure.title));
  for (const Picture& picture : made.pictures) {
    pages.markdown += fmt::format("![{}]({}.svg)\n\n", figure.title, picture.name);
    pages.html += picture.svg;
  }
  for (const Table& table : made.tables) {
    pages.markdown += markdown_of(table);
    pages.html += html_of(table);
  }
  for (const std::string& lack : made.lacks) {
    pages.markdown += fmt::format("Not here: {}\n\n", lack);
    pages.html += fmt::format("<p>Not here: {}</p>\n", html_text(lack));
  }
}

std::string whole_page(const Paper& paper, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>{0}</title>\n"
      "<style>body {{ font-family: sans-serif; max-width: 60em; margin: auto; padding: 1em }}\n"
      "table {{ border-collapse: collapse; margin: 1em 0 }} caption {{ text-align: left; "
      "padding: .3em 0 }}\nth, td {{ padding: .2em .6em; text-align: right; border-bottom: 1px "
      "solid #8884 }}\nth:first-child, td:first-child {{ text-align: left }}</style></head>\n"
      "<body>\n<h1>{0}</h1>\n{1}</body></html>\n",
      html_text(paper.title), body);
}

Status make_all(const ReproduceOptions& options) {
  const fs::path directory = options.directory;
  std::error_code problem;
  fs::create_directories(directory, problem);
  if (problem) {
    return fail(
        fmt::format("--output {}: cannot be made: {}", options.directory, problem.message()));
  }
  Pages pages;
  ProgressLine line;
  for (const Figure& figure : options.figures) {
    line.show(fmt::format("{}: {}", figure.name, figure.title));
    const auto made = figure.make(options.settings);
    line.clear();
    if (!made) return tl::make_unexpected(made.error());
    if (auto written = write_figure(directory, figure, *made); !written) return written;
    add_to(pages, figure, *made);
    print(stdout, fmt::format("{:<{}} {} tables, {} pictures: {}\n", figure.name, name_columns,
                              made->tables.size(), made->pictures.size(), figure.title));
    for (const std::string& lack : made->lacks)
      print(stdout, fmt::format("{:<{}} not here: {}\n", "", name_columns, lack));
  }
  const std::string markdown = fmt::format("# {}\n\n{}", options.paper.title, pages.markdown);
  if (auto written = write_file(directory / (options.paper.name + ".md"), markdown); !written)
    return written;
  return write_file(directory / (options.paper.name + ".html"),
                    whole_page(options.paper, pages.html));
}

int list(const Paper& paper) {
  print(stdout, paper.title + "\n");
  for (const Figure& figure : paper.figures)
    print(stdout, fmt::format("  {:<{}} {}\n", figure.name, name_columns, figure.title));
  return exit_success;
}

int reproduce(const ReproduceOptions& options) {
  if (options.is_list) return list(options.paper);
  const auto made = make_all(options);
  return made ? exit_success : failure(made.error());
}

}  // namespace

int reproduce_command(const std::vector<std::string>& words) {
  return carry_out(reproduce_description(), words, read_reproduce_options, reproduce);
}

}  // namespace weightpager::tools
