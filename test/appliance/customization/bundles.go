// Package customization implements what saves and applies configuration of the stand-in
// appliance: bundles, which clients upload, and backups of its collections.
package customization

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"ndrbridge/test/appliance/access"
	"ndrbridge/test/appliance/openapi"
	"ndrbridge/test/appliance/resource"
	"ndrbridge/test/appliance/rest"
)

const (
	maxBundles    = 50
	maxBundleSize = 1 << 20
)

// Kind is a collection that bundles and backups contain.
type Kind struct {
	Name string // as in bundles
	Set  *resource.Collection
}

// Options configures Customization.
type Options struct {
	Description *openapi.Description
	Kinds       []Kind  // in the order in which they are applied
	Console     bool    // whether bundles can be applied on sensors
	Sensors     []int64 // the ids of the sensors of a console
	Now         int64   // the time of the start, in milliseconds
}

// Customization keeps bundles and backups. It is safe for concurrent use.
type Customization struct {
	options Options
	bundles *resource.Collection
	backups *resource.Collection
	status  status

	restoring sync.Mutex // held while a backup is restored, so that two do not mix
}

// New returns a Customization with a built-in bundle and a backup of what the kinds contain.
func New(o Options) *Customization {
	c := &Customization{options: o}
	c.bundles = resource.NewCollection(o.Description, resource.Kind{
		Path: "/bundles", Name: "bundle", Component: "Bundle", Max: maxBundles,
		Complete: func(r *rest.Request, bundle resource.Object) { bundle["created_time"] = r.Now },
		Check:    checkBundle,
		Show:     showBundle,
		Deny: func(_ *rest.Request, bundle resource.Object, right string) error {
			if right == "delete" && bundle["built_in"] == true {
				return errors.New("a built-in bundle cannot be deleted")
			}
			return nil
		},
	})
	c.bundles.Add(resource.Object{
		"name": "Starter", "description": "Tags for the devices that matter most.",
		"built_in": true, "created_time": o.Now, "mod_time": o.Now,
		"objects": resource.Object{"tags": []any{resource.Object{"name": "Critical"}, resource.Object{"name": "Decommissioned"}}},
	})
	c.newBackups()
	return c
}

// Handlers returns the handlers of the operations on bundles and backups.
func (c *Customization) Handlers() rest.Handlers {
	handlers := c.bundles.Handlers()
	maps.Copy(handlers, c.backups.Handlers())
	handlers["POST /bundles/{id}/apply"] = c.applyBundle
	handlers["POST /customizations"] = c.watch(handlers["POST /customizations"])
	handlers["GET /customizations/status"] = c.getStatus
	handlers["POST /customizations/{id}/apply"] = c.restore
	handlers["POST /customizations/{id}/download"] = c.download
	return handlers
}

func checkBundle(r *rest.Request, _, _ resource.Object) error {
	if len(r.Data) > maxBundleSize {
		return fmt.Errorf("a bundle has at most %d bytes", maxBundleSize)
	}
	return nil
}

// showBundle leaves out the contents if the request lists bundles.
func showBundle(r *rest.Request, bundle resource.Object) resource.Object {
	if r.Parameters["id"] != "" {
		return bundle
	}
	shown := maps.Clone(bundle)
	delete(shown, "objects")
	delete(shown, "assignments")
	return shown
}

// application is the body of POST /bundles/{id}/apply.
type application struct {
	Policy             string
	IncludeAssignments bool    `json:"include_assignments"`
	NodeIDs            []int64 `json:"node_ids"`
}

func (c *Customization) applyBundle(r *rest.Request) rest.Answer {
	bundle := c.bundles.Visible(r)
	if bundle == nil {
		return c.bundles.Missing(r)
	}
	var how application
	if err := r.Decode(&how); err != nil {
		return rest.BadRequest(err)
	}
	if err := c.checkNodes(how.NodeIDs); err != nil {
		return rest.BadRequest(err)
	}
	if refused, ok := c.allowed(r, bundle); !ok {
		return refused
	}
	answer, details := rest.NoContent(), "Applied bundle %d"
	err := c.apply(r, bundle, how.Policy == "overwrite")
	if err == nil && how.IncludeAssignments {
		err = c.assign(bundle)
	}
	if err != nil {
		answer, details = rest.Unprocessable("%v", err), "Applied bundle %d up to what does not fit"
	}
	answer.Audit = &rest.Audit{Operation: "Apply", Component: r.Operation.Tag, Details: fmt.Sprintf(details, r.ID("id"))}
	return answer
}

func (c *Customization) checkNodes(ids []int64) error {
	if len(ids) > 0 && !c.options.Console {
		return errors.New("node_ids: only a console has sensors")
	}
	for _, id := range ids {
		if !slices.Contains(c.options.Sensors, id) {
			return fmt.Errorf("node_ids: there is no sensor %d", id)
		}
	}
	return nil
}

// allowed reports whether the caller may create each kind of object in a bundle, and the refusal
// if not.
func (c *Customization) allowed(r *rest.Request, bundle resource.Object) (refused rest.Answer, ok bool) {
	objects, _ := bundle["objects"].(resource.Object)
	for _, kind := range c.options.Kinds {
		create := c.options.Description.Operation("POST /" + kind.Name)
		if objects[kind.Name] == nil || create == nil {
			continue
		}
		if refused, ok := access.Check(create, r.Caller); !ok {
			return refused, false
		}
	}
	return rest.Answer{}, true
}

// apply creates the objects of a bundle that do not exist, and with overwrite replaces the
// fields of those that do.
func (c *Customization) apply(r *rest.Request, bundle resource.Object, overwrite bool) error {
	objects, _ := bundle["objects"].(resource.Object)
	for _, kind := range c.options.Kinds {
		list, _ := objects[kind.Name].([]any)
		for i, fields := range list {
			if err := kind.Set.Import(r, fields.(resource.Object), overwrite); err != nil {
				return fmt.Errorf("objects.%s.%d: %w", kind.Name, i, err)
			}
		}
	}
	return nil
}

func (c *Customization) assign(bundle resource.Object) error {
	relations := c.relations()
	list, _ := bundle["assignments"].([]any)
	for i, value := range list {
		assignment := value.(resource.Object)
		relation := relations[resource.Text(assignment, "path")]
		if relation == nil {
			return fmt.Errorf("assignments.%d.path: bundles do not assign %s", i, resource.Text(assignment, "path"))
		}
		if err := relation.AssignNamed(resource.Text(assignment, "parent"), resource.Text(assignment, "child")); err != nil {
			return fmt.Errorf("assignments.%d: %w", i, err)
		}
	}
	return nil
}

// relations returns the relations between kinds, and of them with others, by path.
func (c *Customization) relations() map[string]*resource.Relation {
	found := make(map[string]*resource.Relation)
	for _, kind := range c.options.Kinds {
		for _, relation := range kind.Set.Relations() {
			found[relation.Path()] = relation
		}
	}
	return found
}
