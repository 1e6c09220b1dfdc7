"""A client that owes nothing to weightpager's own: asks a socket, checks answers against the schema.

ask.py SOCKET SCHEMA REQUEST...      prints the answers, a line each
"""
import json
import socket
import sys

import jsonschema  # python3-jsonschema: tools/install.sh


def main():
    path, schema_path, requests = sys.argv[1], sys.argv[2], sys.argv[3:]
    with open(schema_path, encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        answers = client.makefile("r", encoding="utf-8")
        for request in requests:
            client.sendall(request.encode() + b"\n")
            answer = json.loads(answers.readline())
            validator.validate(answer)
            print(json.dumps(answer))


main()
