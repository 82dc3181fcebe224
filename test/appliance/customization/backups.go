package customization

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	"ndrbridge/test/appliance/resource"
	"ndrbridge/test/appliance/rest"
)

const maxBackups = 10

// contentField is the field of a backup that has its content; no request sees it.
const contentField = "content"

// content is what a backup contains. It is immutable.
type content struct {
	objects     map[string]resource.Snapshot // by the name of the kind
	assignments map[string]resource.Pairs    // by the path of the relation
}

// status is the result of the most recent attempt to create a backup.
type status struct {
	mu     sync.Mutex
	answer struct {
		Name      string  `json:"name"`
		Time      int64   `json:"time"`
		Succeeded bool    `json:"succeeded"`
		Message   *string `json:"message"`
	}
}

func (c *Customization) newBackups() {
	c.backups = resource.NewCollection(c.options.Description, resource.Kind{
		Path: "/customizations", Name: "backup", Component: "Backup", Unique: []string{"name"}, Max: maxBackups,
		Complete: func(r *rest.Request, backup resource.Object) {
			backup["create_time"], backup[contentField] = r.Now, c.save()
		},
		Show: func(_ *rest.Request, backup resource.Object) resource.Object {
			shown := maps.Clone(backup)
			delete(shown, contentField)
			return shown
		},
	})
	const name = "Automatic backup"
	c.backups.Add(resource.Object{"name": name, "auto": true, "create_time": c.options.Now, contentField: c.save()})
	c.status.answer.Name, c.status.answer.Time, c.status.answer.Succeeded = name, c.options.Now, true
}

// save returns what the appliance contains.
func (c *Customization) save() *content {
	saved := &content{objects: make(map[string]resource.Snapshot), assignments: make(map[string]resource.Pairs)}
	for _, kind := range c.options.Kinds {
		saved.objects[kind.Name] = kind.Set.Snapshot()
	}
	for path, relation := range c.relations() {
		saved.assignments[path] = relation.Snapshot()
	}
	return saved
}

// watch remembers the result of creating a backup.
func (c *Customization) watch(create rest.Handler) rest.Handler {
	return func(r *rest.Request) rest.Answer {
		answer := create(r)
		c.status.mu.Lock()
		defer c.status.mu.Unlock()
		s := &c.status.answer
		s.Name, s.Time, s.Succeeded, s.Message = resource.Text(r.Object(), "name"), r.Now, answer.Status == http.StatusCreated, nil
		if !s.Succeeded {
			s.Message = new("the name is in use, or there are too many backups")
		}
		return answer
	}
}

func (c *Customization) getStatus(*rest.Request) rest.Answer {
	c.status.mu.Lock()
	defer c.status.mu.Unlock()
	return rest.JSON(http.StatusOK, c.status.answer)
}

// restore serves POST /customizations/{id}/apply.
func (c *Customization) restore(r *rest.Request) rest.Answer {
	backup := c.backups.Get(r.ID("id"))
	if backup == nil {
		return c.backups.Missing(r)
	}
	saved := backup[contentField].(*content)
	c.restoring.Lock()
	defer c.restoring.Unlock()
	for _, kind := range c.options.Kinds {
		kind.Set.Restore(r, saved.objects[kind.Name])
	}
	for path, relation := range c.relations() {
		relation.Restore(saved.assignments[path])
	}
	c.backups.Update(r.ID("id"), resource.Object{"recovered": true})
	answer := rest.NoContent()
	answer.Audit = &rest.Audit{Operation: "Restore", Component: r.Operation.Tag, Details: fmt.Sprintf("Restored backup %d", r.ID("id"))}
	return answer
}

// download serves POST /customizations/{id}/download.
func (c *Customization) download(r *rest.Request) rest.Answer {
	backup := c.backups.Get(r.ID("id"))
	if backup == nil {
		return c.backups.Missing(r)
	}
	saved := backup[contentField].(*content)
	objects := make(map[string][]resource.Object, len(saved.objects))
	for name, snapshot := range saved.objects {
		objects[name] = []resource.Object{}
		for _, id := range slices.Sorted(maps.Keys(snapshot)) {
			objects[name] = append(objects[name], snapshot[id])
		}
	}
	assignments := make(map[string]resource.Pairs, len(saved.assignments))
	for path, pairs := range saved.assignments {
		assignments[path] = slices.SortedFunc(slices.Values(pairs), func(a, b [2]int64) int {
			return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
		})
	}
	answer := rest.JSON(http.StatusOK, map[string]any{
		"name": backup["name"], "create_time": backup["create_time"], "objects": objects, "assignments": assignments,
	})
	answer.ContentType = rest.TypeFile
	answer.Header = http.Header{"Content-Disposition": {fmt.Sprintf(`attachment; filename="backup-%d.json"`, r.ID("id"))}}
	return answer
}
