package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/checkpoint"
	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/cmd/internal/terminal"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/commands"
	"ndrbridge/internal/hiding"
	"ndrbridge/transform"
)

func (c *command) hideCommand() *cobra.Command {
	var scope hiding.Scope
	var offender, victim, description string
	var o ruleOptions
	var dryRun bool
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "hide DETECTION (--for DURATION | --dry-run)",
		Short: "Hide a detection and those like it for a while, or count them",
		Long: `Make a tuning rule that hides a detection at the appliance, and those like it: of the same
type, with the same offender and the same victim. Of several, these are the first that is a
device, or else the first with an address. The rule ends after --for.

  --offender any   whoever the offender is
  --victim any     whoever the victim is
  --all-types      of all types of its module, security or performance

--dry-run counts, by the last versions in the journal, which detections the rule would have
hidden, and how many more a wider one would. It contacts no appliance and changes nothing.

The running bridge makes the rule, if rules.write of the appliance is true, and the command
waits for the result; ndrbridge tickets show has it later.`,
		Example: `  ndrbridge hide 25769803779 --victim any --dry-run
  ndrbridge hide 25769803779 --victim any --for 24h --description "backup of the file server"`,
		Args: exactly("DETECTION"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			id, err := numberOf("detection", args[0], "ndrbridge tail --stream detections")
			if err != nil {
				return err
			}
			if scope.AnyOffender, err = isAny("offender", offender); err != nil {
				return err
			}
			if scope.AnyVictim, err = isAny("victim", victim); err != nil {
				return err
			}
			if err := scope.Check(); err != nil {
				return fmt.Errorf("%w: the rule %w", commandline.ErrUsage, err)
			}
			if dryRun {
				return c.acting(cmd.Context(), func(control *admin.Client) error {
					appliance, err := applianceOf(cmd.Context(), control, o.appliance)
					if err != nil {
						return err
					}
					counted, err := c.countHidden(cmd.Context(), control, appliance, id, scope)
					if err != nil {
						return err
					}
					return c.printHidden(counted, time.Now())
				})
			}
			end, err := o.end()
			if err != nil {
				return err
			}
			hide := commands.Hide{DetectionID: id, Offender: offender, Victim: victim, Expiration: end, Description: description}
			if scope.AllTypes {
				hide.Types = commands.AllTypes
			}
			return c.carryOut(cmd.Context(), commands.Command{Hide: &hide}, o)
		},
	}))
	c.addRuleFlags(cmd, &o)
	o.addFor(cmd, "how long the detections stay hidden")
	cmd.Flags().StringVar(&offender, "offender", commands.AsDetected, "the offender of what is hidden: as_detected, or any")
	cmd.Flags().StringVar(&victim, "victim", commands.AsDetected, "the victim of what is hidden: as_detected, or any")
	cmd.Flags().BoolVar(&scope.AllTypes, "all-types", false, "hide all types of the detection's module")
	cmd.Flags().StringVar(&description, "description", "", "why, for those who read the rule at the appliance")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "count what the rule would have hidden, and change nothing")
	c.completeFlag(cmd, "offender", commands.AsDetected, commands.Any)
	c.completeFlag(cmd, "victim", commands.AsDetected, commands.Any)
	return cmd
}

func (c *command) ruleCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "rule",
		Short: "Extend or end a tuning rule",
		Long: `Change when a tuning rule of an appliance ends. ndrbridge hide makes rules; events of the
stream events, such as rule.created, have their ids.`,
		Example: `  ndrbridge rule extend 12 --for 48h
  ndrbridge rule end 12`,
	}, c.ruleExtendCommand(), c.ruleEndCommand())
}

func (c *command) ruleExtendCommand() *cobra.Command {
	var o ruleOptions
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "extend RULE --for DURATION",
		Short: "Let a tuning rule hide detections for longer",
		Long: `Let a tuning rule hide detections until --for from now. A rule that has ended, or lasts
longer already, is refused. The running bridge changes the rule, if rules.write of the
appliance is true.`,
		Example: `  ndrbridge rule extend 12 --for 48h
  ndrbridge rule extend 12 --for 2d --appliance hq --by ana`,
		Args: exactly("RULE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := numberOf("rule", args[0], "ndrbridge hide")
			if err != nil {
				return err
			}
			end, err := o.end()
			if err != nil {
				return err
			}
			return c.carryOut(cmd.Context(), commands.Command{RuleID: id, Extend: end}, o)
		},
	}))
	c.addRuleFlags(cmd, &o)
	o.addFor(cmd, "how long from now the rule lasts")
	return cmd
}

func (c *command) ruleEndCommand() *cobra.Command {
	var o ruleOptions
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "end RULE",
		Short: "Let a tuning rule hide nothing any more",
		Long: `End a tuning rule: the appliance shows again what the rule hides. The running bridge changes
the rule, if rules.write of the appliance is true.`,
		Example: `  ndrbridge rule end 12
  ndrbridge rule end 12 --appliance hq --by ana`,
		Args: exactly("RULE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := numberOf("rule", args[0], "ndrbridge hide")
			if err != nil {
				return err
			}
			return c.carryOut(cmd.Context(), commands.Command{RuleID: id, End: true}, o)
		},
	}))
	c.addRuleFlags(cmd, &o)
	return cmd
}

// ruleOptions are the flags that the commands on rules have.
type ruleOptions struct {
	appliance, by, lasts string
}

func (c *command) addRuleFlags(cmd *cobra.Command, o *ruleOptions) {
	cmd.Flags().StringVar(&o.appliance, "appliance", "", "the appliance; required if there are several")
	cmd.Flags().StringVar(&o.by, "by", "", "the person who asks for it (default your login name)")
	completeFlagBy(cmd, "appliance", c.completeNames((*configs.Config).ApplianceNames))
}

func (o *ruleOptions) addFor(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&o.lasts, "for", "", usage+", such as 24h or 7d; at most rules.max_expiration of the appliance")
}

// end returns --for as commands have it.
func (o *ruleOptions) end() (string, error) {
	if o.lasts == "" {
		return "", fmt.Errorf("%w: --for is missing: every rule must end; write for example --for 24h", commandline.ErrUsage)
	}
	var lasts configs.Duration
	if err := lasts.UnmarshalText([]byte(o.lasts)); err != nil {
		return "", fmt.Errorf("%w: --for: %w", commandline.ErrUsage, err)
	}
	if lasts <= 0 {
		return "", fmt.Errorf("%w: --for: %q must be above 0", commandline.ErrUsage, o.lasts)
	}
	return time.Duration(lasts).String(), nil
}

// numberOf parses the id of a rule or a detection, which a command prints.
func numberOf(what, text, printer string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 {
		return 0, fmt.Errorf("%w: %q is not the id of a %s: give a number, as %s prints it", commandline.ErrUsage, text, what, printer)
	}
	return id, nil
}

// resultWait is how long a command is waited for.
const resultWait = 30 * time.Second

// ruleFlags are the flags for the fields of a command on a rule.
var ruleFlags = map[string]string{
	"appliance": "--appliance", "by": "--by", "extend": "--for", "hide.expiration": "--for", "hide.description": "--description",
}

// carryOut has the bridge carry out a command on a rule, and prints the result.
func (c *command) carryOut(ctx context.Context, asked commands.Command, o ruleOptions) error {
	asked.Appliance, asked.By = o.appliance, o.by
	if asked.By == "" {
		login, err := user.Current()
		if err != nil {
			return fmt.Errorf("%w: --by is missing: your login name is not known: %w", commandline.ErrUsage, err)
		}
		asked.By = login.Username
	}
	return c.acting(ctx, func(control *admin.Client) error {
		id, err := control.SendCommand(ctx, asked)
		if errors.Is(err, admin.ErrNotRunning) {
			return fmt.Errorf("%w: start it with ndrbridge run, which carries out commands, or give the address of a running one with --admin", err)
		}
		if wrong, ok := errors.AsType[*commands.FieldError](err); ok {
			wrong.Field = cmp.Or(ruleFlags[wrong.Field], wrong.Field)
		}
		if err != nil {
			return err
		}
		var result admin.TicketCommand
		waiting, stop := context.WithTimeout(ctx, resultWait)
		defer stop()
		err = terminal.NewProgress(c.stderr).While(func(since time.Duration) string {
			return "waiting for the appliance for " + terminal.Duration(since)
		}, func() error {
			for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
				var err error
				result, err = admin.API.GetTicketCommand.Call(ctx, control, admin.OfCommand{ID: id})
				if err != nil || result.Status != checkpoint.CommandPending {
					return err
				}
				select {
				case <-waiting.Done():
					return nil
				case <-time.After(pause):
				}
			}
		})
		if err != nil {
			return fmt.Errorf("command %d was accepted, but its result is not known: %w", id, err)
		}
		return c.printResult(ctx, control, result)
	})
}

// isAny reports whether a flag selects any participant, instead of the detection's.
func isAny(flag, value string) (bool, error) {
	if value == commands.Any || value == commands.AsDetected {
		return value == commands.Any, nil
	}
	return false, fmt.Errorf("%w: --%s: %q is neither %s nor %s", commandline.ErrUsage, flag, value, commands.AsDetected, commands.Any)
}

// applianceOf returns the appliance that is named, or the only one.
func applianceOf(ctx context.Context, control *admin.Client, named string) (string, error) {
	if named != "" {
		return named, nil
	}
	status, err := control.Status(ctx)
	if err != nil {
		return "", err
	}
	var names []string
	for _, a := range status.Appliances {
		names = append(names, a.Name)
	}
	if len(names) != 1 {
		return "", fmt.Errorf("%w: --appliance is missing: name one of %s", commandline.ErrUsage, strings.Join(names, ", "))
	}
	return names[0], nil
}

// printResult prints the result of a command on a rule, and returns an error unless it was applied.
func (c *command) printResult(ctx context.Context, control *admin.Client, result admin.TicketCommand) error {
	shown := struct {
		admin.TicketCommand
		Rule *transform.RuleCommand `json:"rule,omitempty"`
	}{TicketCommand: result}
	if result.Status == checkpoint.CommandApplied {
		var err error
		if shown.Rule, err = reportedRule(ctx, control, result); err != nil {
			return fmt.Errorf("command %d was applied, but its rule is not known: %w", result.ID, err)
		}
	}
	if c.asJSON {
		if err := c.printJSON(shown); err != nil {
			return err
		}
	}
	text := ""
	switch {
	case result.Status == checkpoint.CommandRejected:
		return fmt.Errorf("command %d was rejected: %s", result.ID, terminal.Printable(result.Reason))
	case result.Status == checkpoint.CommandPending:
		return fmt.Errorf("command %d is accepted, but not carried out yet: ndrbridge status shows why, and ndrbridge tickets show %[1]d the result", result.ID)
	case shown.Rule == nil: // the journal has trimmed the event
		text = fmt.Sprintf("command %d was applied", result.ID)
	case shown.Rule.Action == "end":
		text = fmt.Sprintf("rule %d has ended", shown.Rule.ID)
	default:
		text = fmt.Sprintf("rule %d hides detections until %s", shown.Rule.ID, time.UnixMilli(shown.Rule.Expiration).UTC().Format(time.RFC3339))
	}
	if c.asJSON {
		return nil
	}
	_, err := fmt.Fprintln(c.stdout, text)
	return err
}

// reportedRule returns the rule of an applied command, as its event in the journal reports it; nil
// if that has no such event.
func reportedRule(ctx context.Context, control *admin.Client, result admin.TicketCommand) (rule *transform.RuleCommand, err error) {
	err = control.Tail(ctx, admin.From{Since: result.Accepted, Live: func() error { return errTailed }}, func(e transform.Event) error {
		if e.Type != transform.TypePrefix+"rule.applied" || e.Appliance != result.Appliance {
			return nil
		}
		var data struct{ Rule transform.RuleCommand }
		if json.Unmarshal(e.Data(), &data) == nil && data.Rule.Command == result.ID {
			rule = &data.Rule
		}
		return nil
	})
	if errors.Is(err, errTailed) {
		err = nil
	}
	return rule, err
}
