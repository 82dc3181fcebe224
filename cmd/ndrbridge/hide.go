package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ndrbridge/cmd/internal/commandline"
	"ndrbridge/configs"
	"ndrbridge/internal/admin"
	"ndrbridge/internal/hiding"
)

func (c *command) hideCommand() *cobra.Command {
	var scope hiding.Scope
	var offender, victim, appliance string
	var dryRun bool
	cmd := c.withJSON(c.withControl(&cobra.Command{
		Use:   "hide DETECTION --dry-run",
		Short: "Count what a rule that hides a detection would have hidden",
		Long: `Count which detections of the journal a tuning rule for a detection would have hidden. The
rule is for detections of the same type, or with --all-types of all types of its module, with
the same offender and the same victim: the first that is a device, or else has an address.

  --offender any   whoever the offender is
  --victim any     whoever the victim is

--dry-run counts the last version of each detection, and also what a wider rule would hide
in addition. It contacts no appliance.`,
		Example: `  ndrbridge hide 25769803779 --dry-run
  ndrbridge hide 25769803779 --victim any --dry-run`,
		Args: exactly("DETECTION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || id <= 0 {
				return fmt.Errorf("%w: %q is not the id of a detection: give a number, as ndrbridge tail --stream detections prints it", commandline.ErrUsage, args[0])
			}
			if scope.AnyOffender, err = isAny("offender", offender); err != nil {
				return err
			}
			if scope.AnyVictim, err = isAny("victim", victim); err != nil {
				return err
			}
			if err := scope.Check(); err != nil {
				return fmt.Errorf("%w: %w", commandline.ErrUsage, err)
			}
			if !dryRun {
				return fmt.Errorf("%w: --dry-run is missing", commandline.ErrUsage)
			}
			return c.acting(cmd.Context(), func(control *admin.Client) error {
				appliance, err := applianceOf(cmd.Context(), control, appliance)
				if err != nil {
					return err
				}
				counted, err := c.countHidden(cmd.Context(), control, appliance, id, scope)
				if err != nil {
					return err
				}
				return c.printHidden(counted, time.Now())
			})
		},
	}))
	cmd.Flags().StringVar(&offender, "offender", asDetected, "the offender of what is hidden: as_detected, or any")
	cmd.Flags().StringVar(&victim, "victim", asDetected, "the victim of what is hidden: as_detected, or any")
	cmd.Flags().BoolVar(&scope.AllTypes, "all-types", false, "hide all types of the detection's module, security or performance")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "count what the rule would have hidden, and change nothing")
	cmd.Flags().StringVar(&appliance, "appliance", "", "the appliance of the detection; required if there are several")
	c.completeFlag(cmd, "offender", asDetected, "any")
	c.completeFlag(cmd, "victim", asDetected, "any")
	completeFlagBy(cmd, "appliance", c.completeNames((*configs.Config).ApplianceNames))
	return cmd
}

// asDetected is the value of --offender and --victim for that of the detection.
const asDetected = "as_detected"

func isAny(flag, value string) (bool, error) {
	if value == "any" || value == asDetected {
		return value == "any", nil
	}
	return false, fmt.Errorf("%w: --%s: %q is neither %s nor any", commandline.ErrUsage, flag, value, asDetected)
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
