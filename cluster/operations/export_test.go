package operations

// Divide is divide.
var Divide = divide
