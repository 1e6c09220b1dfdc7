// Finds the experts of a mixture-of-experts model.
#pragma once

#include "pager/model/model.h"

namespace weightpager::model {

/// Fills `model.experts` from `model.layers`, by the tensors' names and shapes.
void find_experts(Model& model);

}  // namespace weightpager::model
