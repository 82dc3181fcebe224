package configs

import (
	"maps"
	"mime"
	"net/textproto"
	"regexp"
	"slices"
	"strings"

	"ndrbridge/sinks/webhook/render"
	"ndrbridge/sinks/webhook/signature"
)

var dnsName = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$`)

// webhookBody checks signatures, templates and the handshake.
func (c checks) webhookBody(path string, w Webhook, mode string) {
	c.sign(path+".sign", w, mode)
	c.bodyTemplate(path, w, mode)
	h := w.Handshake
	if h == nil {
		return
	}
	at := path + ".handshake"
	switch {
	case w.Preset != "":
		c.wrong(at, "is not supported by preset %s; leave it out", w.Preset)
	case h.Origin == "": // reported as missing
	case !dnsName.MatchString(h.Origin):
		c.wrong(at+".origin", "%q is not a DNS name such as ndrbridge.example", h.Origin)
	}
}

func (c checks) sign(path string, w Webhook, mode string) {
	switch {
	case !w.Sign.IsSet():
		return
	case w.Preset != "":
		c.wrong(path, "is not supported by preset %s, whose service does not check signatures; leave it out", w.Preset)
	case w.Gzip:
		c.wrong(path, "cannot be combined with gzip, because receivers do not agree on which body is signed; keep one of them")
	case mode == "binary":
		c.wrong(path, "cannot be combined with mode binary, because only the body is signed and the attributes are in the header; leave mode out")
	}
	for _, name := range slices.Sorted(maps.Keys(w.Headers)) {
		if slices.Contains(signature.Fields(), textproto.CanonicalMIMEHeaderKey(name)) {
			c.wrong(join(parent(path)+".headers", printable(name)), "is set, and so is sign, which sets that header; keep one of them")
		}
	}
	for i, secret := range w.Sign.each() {
		at := item(path+".secrets", i)
		if n := len(w.Sign.Secrets); i >= n {
			at = item(path+".secret_files", i-n)
		}
		text, err := secret.Read()
		if err != nil {
			c.wrong(at, "%v; write the secret into that file, where the bridge may read it, or correct the path", err)
			continue
		}
		if _, err := signature.ParseKey(text); err != nil {
			c.wrong(at, "%v; write whsec_ followed by the base64 of 24 to 64 bytes, as given by the receiver", err)
		}
	}
}

// bodyTemplate checks the template.
func (c checks) bodyTemplate(path string, w Webhook, mode string) {
	key := path + ".template"
	switch {
	case !w.HasTemplate():
		return
	case w.Template != "" && w.TemplateFile != "":
		c.wrong(key, "is set, and so is template_file; keep one of them")
	case w.TemplateFile != "":
		key += fileSuffix
	}
	switch {
	case w.Preset != "":
		c.wrong(key, "sets the body, and so does preset %s; keep one of them", w.Preset)
	case mode != "structured":
		c.wrong(key, "sets the body, and so does mode %s; leave mode out", mode)
	}
	text, err := w.ReadTemplate()
	if err != nil {
		return // reported as an unreadable file
	}
	if _, err := render.Compile(text, w.JSON()); err != nil {
		c.wrong(key, "%v", err)
	}
}

// JSON reports whether the bodies that the template renders must be JSON: by default, and
// if the headers contain a Content-Type of JSON.
func (w Webhook) JSON() bool {
	for name, value := range w.Headers {
		if textproto.CanonicalMIMEHeaderKey(name) != "Content-Type" {
			continue
		}
		text, err := value.Read()
		if err != nil {
			return false
		}
		media, _, err := mime.ParseMediaType(text)
		return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
	}
	return true
}
