// Figure 16 on this machine: the energy of an inference, where there are counters.
//
// The paper adds up six power monitors of its board. Counters of energy need no adding up, and one
// reading before and after many inferences costs nothing.
#include <fmt/format.h>

#include <utility>

#include "tools/commands/reproduce/demand_layering_figures.h"
#include "tools/commands/reproduce/demand_layering_here.h"
#include "tools/probes/energy_counters.h"
#include "tools/terminal/figures.h"

namespace weightpager::tools::demand_layering {

Result<Reproduction> figure_16_here(const ReproduceSettings& settings) {
  EnergyCounters counters = EnergyCounters::find();
  if (counters.names().empty()) {
    Reproduction made;
    made.lacks = counters.lacks();
    return made;
  }
  return measured_here(settings, [&](const NetworkHere& here) -> Result<Reproduction> {
    infer::ComparisonOptions options;
    options.inferences = settings.is_quick ? 1 : 5;
    options.read_counters = [&] { return counters.joules(); };
    const auto comparison = compare_here(settings, here.network(), here, options);
    if (!comparison) return tl::make_unexpected(comparison.error());
    Reproduction made;
    made.lacks = counters.lacks();
    Table table = {.title = fmt::format("This machine: joules for an inference of {} (Figure 16)",
                                        here.name()),
                   .columns = {"pipeline", "delay, ms"},
                   .rows = {},
                   .note = fmt::format("{} The counters are those of the whole machine: whatever "
                                       "else runs counts, too.",
                                       machine_note(settings))};
    table.columns.insert(table.columns.end(), counters.names().begin(), counters.names().end());
    for (const infer::Configuration& it : comparison->configurations) {
      std::vector<std::string> row = {it.name, fmt::format("{:.1f}", milliseconds(it.median_ns()))};
      for (const double joules : it.counted)
        row.push_back(fmt::format("{:.2f}", joules / static_cast<double>(it.delays_ns.size())));
      table.rows.push_back(std::move(row));
    }
    made.tables.push_back(std::move(table));
    return made;
  });
}

}  // namespace weightpager::tools::demand_layering
