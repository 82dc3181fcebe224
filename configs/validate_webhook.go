package configs

import (
	"mime"
	"net/textproto"
	"strings"

	"ndrbridge/sinks/webhook/signature"
	"ndrbridge/transform/render"
)

// webhookBody checks what requests hold, and what is asked before the first.
func (c checks) webhookBody(path string, w Webhook, mode string) {
	c.sign(path+".sign", w)
	if h := w.Handshake; h != nil {
		switch {
		case h.Origin == "":
			c.missing(path + ".handshake.origin")
		case !headerName.MatchString(h.Origin):
			c.wrong(path+".handshake.origin", "%q is no DNS name", h.Origin)
		}
		c.atLeast(path+".handshake.rate", h.Rate, 1)
	}
	c.bytes(path+".max_body_bytes", w.MaxBodyBytes)
	if w.Template == "" && w.TemplateFile == "" {
		return
	}
	key := path + ".template"
	if w.TemplateFile != "" {
		if w.Template != "" {
			c.wrong(key, "is set, and so is template_file; keep one of them")
		}
		key += fileSuffix
	}
	if mode != "structured" {
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

func (c checks) sign(path string, w Webhook) {
	if w.Sign.IsSet() && w.Gzip {
		c.wrong(path, "does not go with gzip: receivers do not agree on which body is signed; keep one of them")
	}
	for i, secret := range w.Sign.each() {
		at := item(path+".secrets", i)
		if n := len(w.Sign.Secrets); i >= n {
			at = item(path+".secret_files", i-n)
		}
		text, err := secret.Read()
		if err == nil {
			_, err = signature.ParseKey(text)
		}
		if err != nil {
			c.wrong(at, "%v; write whsec_ and base64 of 24 to 64 bytes, as the receiver gave it out", err)
		}
	}
}

// JSON tells whether the bodies that a template makes are to be JSON: they are by
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
