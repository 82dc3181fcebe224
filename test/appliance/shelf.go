package appliance

// shelf contains the visible versions and the history.
type shelf struct {
	current     []*Version    // the last version of each, unordered
	position    map[int64]int // in current, by id
	byModTime   index
	history     []*Version
	withHistory bool
}

func (s *shelf) init(withHistory bool) {
	s.position = make(map[int64]int)
	s.withHistory = withHistory
}

// last returns the visible version of a detection, or nil.
func (s *shelf) last(id int64) *Version {
	if i, ok := s.position[id]; ok {
		return s.current[i]
	}
	return nil
}

// put makes v the visible version of its detection.
func (s *shelf) put(v *Version) {
	if i, ok := s.position[v.ID]; ok {
		s.byModTime.remove(s.current[i])
		s.current[i] = v
	} else {
		s.position[v.ID] = len(s.current)
		s.current = append(s.current, v)
	}
	s.byModTime.insert(v)
	if s.withHistory {
		s.history = append(s.history, v)
	}
}

// hide makes a detection invisible.
func (s *shelf) hide(v *Version) {
	s.byModTime.remove(v)
	i, last := s.position[v.ID], len(s.current)-1
	s.current[i] = s.current[last]
	s.position[s.current[i].ID] = i
	s.current[last] = nil
	s.current = s.current[:last]
	delete(s.position, v.ID)
}
