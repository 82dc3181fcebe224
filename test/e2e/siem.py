"""Parses lines in CEF and LEEF, from standard input, with parsers of others: a JSON object a line."""

import json
import sys

import cefp
import pyvrl

CEF = pyvrl.Transform(". = parse_cef!(.line)")
LEEF = pyvrl.Transform(r"""
parts = split!(.line, "|", limit: 7)
. = {
	"header": slice!(parts, 1, 5),
	"keys": parse_key_value!(parts[6], key_value_delimiter: "=", field_delimiter: "\t", whitespace: "strict"),
}
""")
HEADER = ["deviceVendor", "deviceProduct", "deviceVersion", "deviceEventClassId", "name", "severity"]


def parse_cef(line):
    one = cefp.parse(line)
    device = one["device"]
    header = [device["vendor"], device["product"], device["version"], device["event_class_id"], one["name"], one["severity"]]
    other = CEF.remap({"line": line})
    del other["cefVersion"]
    return {
        "cefp": {"header": header, "keys": one["extension"]},
        "vrl": {"header": [other.pop(name) for name in HEADER], "keys": other},
    }


def parse_leef(line):
    return {"vrl": LEEF.remap({"line": line})}


for line in sys.stdin.buffer:
    line = line.decode().removesuffix("\n")
    parsed = parse_cef(line) if line.startswith("CEF:") else parse_leef(line)
    sys.stdout.buffer.write(json.dumps(parsed).encode() + b"\n")
