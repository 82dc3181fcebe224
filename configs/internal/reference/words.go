package main

// The words of rules: each is a schema of an object.

// set says that the key is there with a value.
func set(key string) object { return with(key, definition("set")) }

// setDefinition is what any value fits but an empty one.
func setDefinition() object { return not(object{"enum": []any{nil, "", []any{}, object{}}}) }

// with says that the key is there, and that its value fits.
func with(key string, schema object) object {
	return object{"type": "object", "required": []string{key}, "properties": object{key: schema}}
}

// where says that the value of the key fits, where it is there.
func where(key string, schema object) object { return object{"properties": object{key: schema}} }

// secret says that one of the keys of a secret has a value.
func secret(key string) object { return some(set(key), set(key+"_file")) }

// is says that the key is there with one of the values.
func is(key string, values ...any) object { return with(key, object{"enum": values}) }

// there says that the key is, with whatever value.
func there(key string) object { return object{"type": "object", "required": []string{key}} }

func all(schemas ...object) object      { return object{"allOf": schemas} }
func some(schemas ...object) object     { return object{"anyOf": schemas} }
func not(schema object) object          { return object{"not": schema} }
func none(schemas ...object) object     { return not(some(schemas...)) }
func when(this, then object) object     { return object{"if": this, "then": then} }
func together(a, b object) object       { return object{"if": a, "then": b, "else": not(b)} }
func either(this, a, b object) object   { return object{"if": this, "then": a, "else": b} }
func excludes(this, that object) object { return not(all(this, that)) }

// atMostOne says that no two of the schemas fit.
func atMostOne(schemas ...object) object {
	var pairs []object
	for i := range schemas {
		for _, other := range schemas[i+1:] {
			pairs = append(pairs, all(schemas[i], other))
		}
	}
	return none(pairs...)
}

// anySet says that one of the keys has a value.
func anySet(keys ...string) object {
	var schemas []object
	for _, key := range keys {
		schemas = append(schemas, set(key))
	}
	return some(schemas...)
}

// onlyWith says that the keys have values where condition holds alone.
func onlyWith(condition object, keys ...string) object {
	return when(anySet(keys...), condition)
}
