package configs

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// form is a form of text, which a key requires by its form tag.
type form struct {
	pattern func() *regexp.Regexp // in the syntax that Go and JSON Schema have in common
	wrong   string                // the message about another text, which VALUE stands for
}

const (
	port        = `:0*([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$`
	address     = `^(\[[^\[\]]+\]|[^:\[\]]+)` + port
	placeholder = `\{(stream|appliance|action)\}`
	blanks      = ` \t\r\n\f`
	subjectWord = `([^` + blanks + `.*>{}]|` + placeholder + `)+`
	filterWord  = `([^` + blanks + `.*>{}]+|[*])`
)

const memberAdvice = "write 1 to 63 letters, digits, - and _"

var forms = map[string]form{
	"name":     newForm(`^[a-z0-9-]{1,63}$`, "VALUE is not a valid name; write 1 to 63 of a-z, 0-9 and -"),
	"cluster":  newForm(`^[a-z0-9-]{1,32}$`, "VALUE is not a valid name; write 1 to 32 of a-z, 0-9 and -"),
	"member":   newForm(`^[A-Za-z0-9_-]{1,63}$`, "VALUE is not a valid name; "+memberAdvice),
	"word":     newForm(`^[A-Za-z][A-Za-z0-9_-]*$`, "VALUE is invalid; write letters, digits, - and _, beginning with a letter"),
	"item":     newForm(`.`, "is empty; write a value, or remove the item"),
	"category": newForm(`^(sec|perf|custom)([.][a-z_]+)?$`, "VALUE is not a category; write sec, perf or custom, or a part of one, such as sec.botnet or perf.db"),
	"field":    newForm(`^[^."\\]+([.][^."\\]+)*$`, "VALUE is not the path of a field; write names joined by dots, such as detection.description"),
	"success":  newForm(`^2[0-9]{2}$`, "VALUE is not a status of 2xx; write 200 to 299"),
	"path":     newForm(`^[^.]+([.][^.]+)*$`, "VALUE is not a path; write names and indexes joined by dots, such as issue.key or result.0.number"),
	"header":   newForm("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$", "VALUE is not the name of a header; write letters, digits and -"),

	"listen":   newForm(`^(\[[^\[\]]*\]|[^:\[\]]*)`+port, "VALUE is not an address; write host:port, for example 127.0.0.1:9600"),
	"broker":   newForm(address, "VALUE is not an address; write host:port, usually with port 9092"),
	"peer":     newForm(address, "VALUE is not an address; write host:port, usually with port 6222"),
	"receiver": newForm(address, "VALUE is not an address; write host:port, usually with port 6514 for TLS and 514 otherwise"),
	"app_name": newForm(`^[!-~]{1,48}$`, "VALUE cannot be sent; write 1 to 48 ASCII characters without blanks"),
	"hostname": newForm(`^[!-~]{1,255}$`, "VALUE cannot be sent; write 1 to 255 ASCII characters without blanks"),

	"topic":          newForm(`^[A-Za-z0-9._-]{1,249}$`, "VALUE is not a topic name; write letters, digits, dots, - and _"),
	"topics":         newForm(`^([A-Za-z0-9._-]|`+placeholder+`){1,249}$`, "VALUE is not a topic name; write letters, digits, dots, - and _, and only {stream}, {appliance} and {action} in braces"),
	"stream":         newForm(`^[^`+blanks+`.*>/\\]+$`, `VALUE is not a stream name; leave out blanks and . * > / \`),
	"consumer":       newForm(`^[^`+blanks+`.*>/\\]+$`, `VALUE is not a consumer name; leave out blanks and . * > / \`),
	"subject":        newForm(`^`+subjectWord+`([.]`+subjectWord+`)*$`, "VALUE is not a valid subject to publish to; write words separated by dots, without blanks, * and >, and only {stream}, {appliance} and {action} in braces"),
	"subject_filter": newForm(`^`+filterWord+`([.]`+filterWord+`)*([.]>)?$`, "VALUE is not a valid subject; write words separated by dots, * for any one word, > for all that follow"),
}

// newForm returns a form whose pattern is compiled when a text of it is checked: all of them would
// take some milliseconds of every command.
func newForm(pattern, wrong string) form {
	return form{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) }), wrong}
}

// Pattern returns the regular expression of a form; "" for no form.
func Pattern(name string) string {
	if name == "" {
		return ""
	}
	return forms[name].pattern().String()
}

// form checks a text that is set.
func (c checks) form(path, name, text string) {
	if f := forms[name]; name != "" && !f.pattern().MatchString(text) {
		c.wrong(path, "%s", strings.Replace(f.wrong, "VALUE", strconv.Quote(text), 1))
	}
}
