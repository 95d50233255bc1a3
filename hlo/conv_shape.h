// A convolution node's attributes as sizes and memory strides of dense row-major operands.
#ifndef LAMINA_HLO_CONV_SHAPE_H_
#define LAMINA_HLO_CONV_SHAPE_H_

#include "hlo/graph.h"
#include "hlo/reference_conv.h"

namespace lamina::hlo {

ConvShape conv_shape(const Node& convolution);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_CONV_SHAPE_H_
