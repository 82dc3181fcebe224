package main

// filterDefinition returns the schema of a record filter.
func filterDefinition() object {
	value := object{"type": []string{"string", "number", "boolean"}}
	values := object{"type": "array", "minItems": 1, "items": value}
	name := object{"type": []string{"string", "number", "boolean"}, "minLength": 1}
	operand := func(schema object) object {
		return object{"anyOf": []object{schema, {
			"type": "object", "additionalProperties": false, "required": []string{"type", "value"},
			"properties": object{"type": name, "value": schema},
		}}}
	}
	kind := func(properties object, operators ...string) object {
		properties["operator"] = object{"anyOf": []object{{"enum": operators}, definition("reference")}}
		var required []string
		for _, key := range []string{"field", "operator", "operand", "rules"} {
			if properties[key] != nil {
				required = append(required, key)
			}
		}
		return object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
	}
	return object{"anyOf": []object{
		kind(object{"field": name, "operand": operand(value)}, "=", "!=", ">", "<", ">=", "<=", "~", "!~", "startswith"),
		kind(object{"field": name, "operand": operand(values)}, "in", "not_in"),
		kind(object{"field": name}, "exists", "not_exists"),
		kind(object{"rules": object{"type": "array", "minItems": 1, "items": definition("filter")}}, "and", "or", "not"),
	}}
}
