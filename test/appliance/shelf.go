package appliance

// shelf holds what is visible, and the history of what was.
type shelf struct {
	current     []*Version    // the last version of each, in no order
	place       map[int64]int // by id: where in current
	byModTime   index
	history     []*Version
	withHistory bool
}

func (s *shelf) init(withHistory bool) {
	s.place = make(map[int64]int)
	s.withHistory = withHistory
}

// last returns the visible version of a detection, or nil.
func (s *shelf) last(id int64) *Version {
	if i, ok := s.place[id]; ok {
		return s.current[i]
	}
	return nil
}

// put makes v the visible version of its detection.
func (s *shelf) put(v *Version) {
	if i, ok := s.place[v.ID]; ok {
		s.byModTime.remove(s.current[i])
		s.current[i] = v
	} else {
		s.place[v.ID] = len(s.current)
		s.current = append(s.current, v)
	}
	s.byModTime.insert(v)
	if s.withHistory {
		s.history = append(s.history, v)
	}
}

// hide takes a detection out of sight.
func (s *shelf) hide(v *Version) {
	s.byModTime.remove(v)
	i, last := s.place[v.ID], len(s.current)-1
	s.current[i] = s.current[last]
	s.place[s.current[i].ID] = i
	s.current[last] = nil
	s.current = s.current[:last]
	delete(s.place, v.ID)
}
