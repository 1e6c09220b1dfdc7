// Groups a model's tensors into layers and puts these into execution order.
#pragma once

#include "pager/model/model.h"

namespace weightpager::model {

/// Fills `model.layers` from `model.tensors`, by the tensors' names. Every tensor is in a layer;
/// one that is token embedding and output matrix at once is in two.
void group_layers(Model& model);

}  // namespace weightpager::model
