"""What OpenCV's DNN module makes of a picture, for compare_outputs: every section's output, and the boxes.

opencv_outputs.py CFG WEIGHTS PICTURE PROBABILITY_MIN SECTIONS DETECTIONS

The picture is a PPM as large as the network's input. SECTIONS and DETECTIONS: see darknet_outputs.c. Of a [yolo]
section only its boxes are compared, all of them: OpenCV gives them in another form.
"""

import re
import sys

import cv2
import numpy

ACTIVATIONS = ("leaky", "logistic", "mish", "relu", "swish")


def read_ppm(path):
    header, _, values = open(path, "rb").read().partition(b"\n")
    width, height = (int(word) for word in header.split()[1:3])
    picture = numpy.frombuffer(values, numpy.uint8).reshape(height, width, 3)
    return numpy.float32(picture.transpose(2, 0, 1) / 255.0)[None]


def sections(cfg):
    """The kind of each section, and its options."""
    found = []
    for line in open(cfg):
        line = line.split("#")[0].strip()
        if line.startswith("["):
            found.append((line.strip("[]"), {}))
        elif line:
            key, value = line.split("=")
            found[-1][1][key.strip()] = value.strip()
    return found[1:]


def last_layers(net, count):
    """By section: OpenCV's layer that gives its output. Names end with the section's number, those of activations
    with the next one's."""
    names = [None] * count
    for name in net.getLayerNames():
        kind, number = re.fullmatch(r"(\w+)_(\d+)", name).groups()
        section = int(number) - (kind in ACTIVATIONS)
        names[section] = name
    return names


def put(file, values):
    file.write(numpy.uint32(values.size).tobytes())
    file.write(numpy.float32(values).tobytes())


def put_boxes(file, boxes, probability_min):
    for x, y, width, height, objectness, *classes in boxes:
        for number, probability in enumerate(classes):
            if objectness > probability_min and probability > probability_min:
                file.write(f"{number} {probability:.9g} {x:.9g} {y:.9g} {width:.9g} {height:.9g}\n")


def main():
    cfg, weights, picture, probability_min, sections_path, detections_path = sys.argv[1:]
    net = cv2.dnn.readNetFromDarknet(cfg, weights)
    net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    net.enableFusion(False)
    kinds = sections(cfg)
    names = last_layers(net, len(kinds))
    blob = read_ppm(picture)
    net.setInput(blob)
    wanted = [name for name in names if name]
    outputs = dict(zip(wanted, net.forward(wanted)))
    with open(sections_path, "wb") as file, open(detections_path, "w") as detections:
        put(file, blob)
        for (kind, _), name in zip(kinds, names):
            if kind == "yolo":
                put_boxes(detections, outputs[name].reshape(-1, outputs[name].shape[-1]), float(probability_min))
            put(file, outputs[name] if name and kind != "yolo" else numpy.float32([]))


main()
