package main

import (
	"fmt"

	standin "ndrbridge/test/appliance"
)

// printIntroduction says what there is and where.
func (d *demo) printIntroduction(admin string) {
	end := "Ctrl-C ends it."
	if d.lasts > 0 {
		end = fmt.Sprintf("It ends after %v.", d.lasts)
	}
	d.screen.line(fmt.Sprintf(`A stand-in appliance, a NATS server, a webhook receiver, a chat, a Jira, and the bridge
between them. The appliance fails one request in seven, the webhook hangs up on one event
in a hundred that it took: watch that nothing is lost. %s

appliance      %s
               curl -H 'Authorization: Service apikey=%s' '%s/api/v1/detections?limit=1'
bridge         http://%s in a browser: how it is doing; and http://%s/readyz, http://%s/metrics
configuration  %s
log            %s
bus, NATS      %s, stream NDR, subjects ndr.>
soc, webhook   %s
chat, Slack    %s in a browser: cards of the most severe detections
tickets, Jira  curl -u %s:%s '%s/rest/api/3/issue/%s-1'
log, file      %s

dup: events that came again; wait: what is on its way.
`, end, d.ApplianceURL, standin.DefaultAPIKey, d.ApplianceURL, admin, admin, admin, d.Config, d.Log, d.NATSURL, d.WebhookURL, d.ChatURL, jiraEmail, jiraToken, d.JiraURL, jiraProject, d.File))
}
