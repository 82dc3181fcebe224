package configs

import "ndrbridge/tickets/webhooks"

func (c checks) tickets(t Tickets, admin Admin) {
	before := map[string]string{"jira": "tickets.webhooks.jira", "servicenow": "tickets.webhooks.servicenow"}
	for i, g := range t.Webhooks.Generic {
		c.name(item("tickets.webhooks.generic", i)+".name", g.Name, before)
	}
	for _, s := range t.Webhooks.each() {
		c.ticketWebhook("tickets.webhooks."+s.path, s, admin)
	}
}

func (c checks) ticketWebhook(path string, s ticketSystem, admin Admin) {
	basic := s.method() == webhooks.MethodBasic
	switch {
	case !s.Secret.IsSet() && !c.failedSecret(path+".secret") && !admin.Token.IsSet():
		c.wrong(path+".secret_file", "is missing, and so is admin.token_file: set one of them, or anybody could close detections")
	case !s.Secret.IsSet() && (s.Verify != "" || s.Header != "" || s.Username != ""):
		c.wrong(path+".secret_file", "is missing, without which nothing can be verified")
	case basic && s.Username == "":
		c.missing(path + ".username")
	case !basic && s.Username != "":
		c.wrong(path+".username", "goes with verify: basic alone; take it out, or set verify")
	}
	if s.Header != "" {
		switch {
		case basic:
			c.wrong(path+".header", "does not go with verify: basic, which uses Authorization; take it out")
		case !headerName.MatchString(s.Header):
			c.wrong(path+".header", "%q is no name of a header", s.Header)
		}
	}
	if _, err := s.receiver(); err != nil {
		c.wrong(path+".map", "%v", err)
	}
}
