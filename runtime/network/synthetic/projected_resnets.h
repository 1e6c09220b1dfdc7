// ResNet-101 as PyTorch has it, and the FCN for segmentation that stands on it: two networks of the
// SwapNet paper.
//
// Where a stage begins, the shapes of a block's input and output differ. Darknet's ResNets add what
// fits. These put a convolution of 1 x 1 into the shortcut (a projection), as He et al. do. So they
// have the 170 MB of the SwapNet paper, Darknet's ResNet-101 160.
#pragma once

#include "runtime/network/synthetic/description_text.h"

namespace weightpager::network {

/// 1000 classes of pictures of 224 x 224.
Description projected_resnet101();

/// Two maps of 21 classes: the auxiliary one, then the main one. The backbone keeps the height and
/// width of its second stage, an eighth of the picture's. PyTorch's has dilated filters in the
/// third and fourth stage, and spreads the maps bilinearly. Here the filters are not dilated, and
/// each value of a map is repeated 8 x 8 times. Weights, operations and shapes are the same.
Description fcn_resnet101();

}  // namespace weightpager::network
