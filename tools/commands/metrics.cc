#include "tools/commands/metrics.h"

#include <nlohmann/json.hpp>

#include "tools/live/live_process.h"

namespace weightpager::tools {

Command metrics_description() {
  return {.name = "weightpager metrics",
          .purpose =
              "Prints a live pager's counters as OpenMetrics text, which Prometheus can read.\n"
              "`weightpager run --http PORT` serves the same at /metrics.\n",
          .usage = "  weightpager metrics PID\n",
          .examples =
              "  weightpager metrics 4711\n"
              "  weightpager metrics 4711 >/var/lib/node_exporter/weightpager.prom\n",
          .exit_status = live_exit_status,
          .operands = Operands::pagers};
}

int metrics_command(const std::vector<std::string>& words) {
  const Command command = metrics_description();
  return run_live_command(command, words, [&](const Arguments& arguments) -> int {
    auto client = connect_to_operand(command, arguments);
    if (!client) return client.error();
    const auto answer = client->ask(request_of("metrics"));
    if (!answer) return live_failure(answer.error());
    print(stdout, answer->at("text").get<std::string>());
    return exit_success;
  });
}

}  // namespace weightpager::tools
