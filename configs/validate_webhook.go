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

// webhookBody checks what requests hold, and what is asked before the first.
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
		c.wrong(at, "does not fit preset %s, whose service knows none; leave it out", w.Preset)
	case h.Origin == "": // which was told
	case !dnsName.MatchString(h.Origin):
		c.wrong(at+".origin", "%q is no DNS name, such as ndrbridge.example", h.Origin)
	}
}

func (c checks) sign(path string, w Webhook, mode string) {
	switch {
	case !w.Sign.IsSet():
		return
	case w.Preset != "":
		c.wrong(path, "does not fit preset %s, whose service reads no signatures; leave it out", w.Preset)
	case w.Gzip:
		c.wrong(path, "does not go with gzip: receivers do not agree on which body is signed; keep one of them")
	case mode == "binary":
		c.wrong(path, "does not go with mode binary: only the body is signed, and the attributes are in the header; leave mode out")
	}
	for _, name := range slices.Sorted(maps.Keys(w.Headers)) {
		if slices.Contains(signature.Fields(), textproto.CanonicalMIMEHeaderKey(name)) {
			c.wrong(join(parent(path)+".headers", printable(name)), "is set, and so is sign, which makes that header; keep one of them")
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
			c.wrong(at, "%v; write whsec_ and base64 of 24 to 64 bytes, as the receiver gave it out", err)
		}
	}
}

// bodyTemplate checks what makes the bodies.
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
		c.wrong(key, "makes the body, and so does preset %s; keep one of them", w.Preset)
	case mode != "structured":
		c.wrong(key, "makes the body, and so does mode %s; leave mode out", mode)
	}
	text, err := w.ReadTemplate()
	if err != nil {
		return // it was told that the file cannot be read
	}
	if _, err := render.Compile(text, w.JSON()); err != nil {
		c.wrong(key, "%v", err)
	}
}

// JSON reports whether the bodies that a template makes are to be JSON: they are by
// default, and by a Content-Type among the headers that says so.
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
