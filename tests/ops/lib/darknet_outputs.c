// What Debian's Darknet makes of a picture, for compare_outputs: every section's output, and the
// boxes.
//
//   darknet_outputs CFG WEIGHTS PICTURE PROBABILITY_MIN SECTIONS DETECTIONS
//
// SECTIONS: the network's input and each section's output, as a 32-bit count and so many floats; a
// count of 0 for sections of which Darknet computes nothing ([cost]).
// DETECTIONS: lines of `class probability x y width height`.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "darknet.h"

static void put(FILE* file, const float* values, uint32_t count) {
  if (fwrite(&count, sizeof count, 1, file) != 1 ||
      fwrite(values, sizeof *values, count, file) != count) {
    perror("darknet_outputs");
    exit(1);
  }
}

static void put_detections(FILE* file, network* net, image picture, float probability_min) {
  int count = 0;
  detection* found =
      get_network_boxes(net, picture.w, picture.h, probability_min, 0.5f, 0, 1, &count);
  if (count > 0) do_nms_sort(found, count, found[0].classes, 0.45f);
  for (int i = 0; i < count; ++i) {
    for (int k = 0; k < found[i].classes; ++k) {
      const box b = found[i].bbox;
      if (found[i].prob[k] > 0) {
        fprintf(file, "%d %.9g %.9g %.9g %.9g %.9g\n", k, found[i].prob[k], b.x, b.y, b.w, b.h);
      }
    }
  }
}

int main(int count, char** arguments) {
  if (count != 7) {
    fprintf(stderr, "usage: see the head of darknet_outputs.c\n");
    return 2;
  }
  network* net = load_network(arguments[1], arguments[2], 0);
  set_batch_network(net, 1);
  const image picture = load_image(arguments[3], 0, 0, net->c);
  const image input = letterbox_image(picture, net->w, net->h);
  network_predict(net, input.data);

  FILE* sections = fopen(arguments[5], "wb");
  FILE* detections = fopen(arguments[6], "w");
  if (sections == NULL || detections == NULL) {
    perror(sections == NULL ? arguments[5] : arguments[6]);
    return 1;
  }
  put(sections, input.data, (uint32_t)(input.w * input.h * input.c));
  int is_detector = 0;
  for (int i = 0; i < net->n; ++i) {
    const layer it = net->layers[i];
    is_detector |= it.type == YOLO;
    put(sections, it.output, it.type == COST ? 0 : (uint32_t)it.outputs);
  }
  if (is_detector) put_detections(detections, net, picture, (float)atof(arguments[4]));
  return fclose(sections) != 0 || fclose(detections) != 0;
}
