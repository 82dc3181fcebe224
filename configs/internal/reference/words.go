package main

// The functions in this file build the rules between keys. Each returns the schema of an
// object.

// set requires the key to have a value that is not empty.
func set(key string) object { return with(key, definition("set")) }

// setDefinition matches every value that is not empty.
func setDefinition() object { return not(object{"enum": []any{nil, "", []any{}, object{}}}) }

// with requires the key to be present and its value to match schema.
func with(key string, schema object) object {
	return object{"type": "object", "required": []string{key}, "properties": object{key: schema}}
}

// where requires the value of the key to match schema, if the key is present.
func where(key string, schema object) object { return object{"properties": object{key: schema}} }

// secret requires one of the two keys of a secret to be set.
func secret(key string) object { return some(set(key), set(key+"_file")) }

// is requires the key to be present with one of the values, in any spelling of text.
func is(key string, values ...any) object {
	var texts []string
	for _, value := range values {
		if text, is := value.(string); is {
			texts = append(texts, text)
		}
	}
	if len(texts) == len(values) {
		return with(key, object{"type": "string", "pattern": spellings(texts)})
	}
	return with(key, object{"enum": values})
}

// there requires the key to be present, with any value.
func there(key string) object { return object{"type": "object", "required": []string{key}} }

func all(schemas ...object) object      { return object{"allOf": schemas} }
func some(schemas ...object) object     { return object{"anyOf": schemas} }
func not(schema object) object          { return object{"not": schema} }
func none(schemas ...object) object     { return not(some(schemas...)) }
func when(this, then object) object     { return object{"if": this, "then": then} }
func together(a, b object) object       { return object{"if": a, "then": b, "else": not(b)} }
func either(this, a, b object) object   { return object{"if": this, "then": a, "else": b} }
func excludes(this, that object) object { return not(all(this, that)) }

// atMostOne requires that no two of the schemas match.
func atMostOne(schemas ...object) object {
	var pairs []object
	for i := range schemas {
		for _, other := range schemas[i+1:] {
			pairs = append(pairs, all(schemas[i], other))
		}
	}
	return none(pairs...)
}

// anySet requires at least one of the keys to be set.
func anySet(keys ...string) object {
	var schemas []object
	for _, key := range keys {
		schemas = append(schemas, set(key))
	}
	return some(schemas...)
}

// onlyWith permits the keys to be set only if condition matches.
func onlyWith(condition object, keys ...string) object {
	return when(anySet(keys...), condition)
}
