package main

import (
	"fmt"

	standin "ndrbridge/test/appliance"
)

// printIntroduction prints the parts of the demo with their addresses.
func (d *demo) printIntroduction(admin string) {
	end := "Ctrl-C ends the demo."
	if d.lasts > 0 {
		end = fmt.Sprintf("The demo ends after %v.", d.lasts)
	}
	d.screen.line(fmt.Sprintf(`A stand-in appliance, a NATS server, a webhook receiver, a chat, a Jira, and the bridge
between them. The appliance fails one request in seven, and the webhook hangs up before
responding to one event in a hundred: nothing is lost. %s

appliance      %s
               curl -H 'Authorization: Service apikey=%s' '%s/api/v1/detections?limit=1'
bridge         http://%s in a browser: the status page; and http://%s/readyz, http://%s/metrics
configuration  %s
log            %s
bus, NATS      %s, stream NDR, subjects ndr.>
soc, webhook   %s
chat, Slack    %s in a browser: cards of high-risk detections
tickets, Jira  curl -u %s:%s '%s/rest/api/3/issue/%s-1'
log, file      %s

dup: events that were delivered again; wait: objects that have not been delivered yet.
`, end, d.ApplianceURL, standin.DefaultAPIKey, d.ApplianceURL, admin, admin, admin, d.Config, d.Log, d.NATSURL, d.WebhookURL, d.ChatURL, jiraEmail, jiraToken, d.JiraURL, jiraProject, d.File))
}
