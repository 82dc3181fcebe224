# Makes the queue SOC with two accounts in a new database of Request Tracker, and prints the name
# and token of each.
use strict;
use warnings;
use lib '/usr/share/request-tracker5/lib';
use RT;

RT::LoadConfig();
RT::Init();
my $queue = RT::Queue->new(RT->SystemUser);
my ($made, $message) = $queue->Create(Name => 'SOC');
die $message unless $made;
my $everybody = RT::Group->new(RT->SystemUser);
$everybody->LoadSystemInternalGroup('Privileged');
for my $right (qw(SeeQueue ShowTicket ShowTicketComments CreateTicket ModifyTicket CommentOnTicket OwnTicket ReassignTicket DeleteTicket)) {
    ($made, $message) = $everybody->PrincipalObj->GrantRight(Right => $right, Object => $queue);
    die $message unless $made;
}
for my $name (qw(ndrbridge ana)) {
    my $user = RT::User->new(RT->SystemUser);
    ($made, $message) = $user->Create(Name => $name, Privileged => 1);
    die $message unless $made;
    my ($id, $said, $token) = RT::AuthToken->new(RT->SystemUser)->Create(Owner => $user->id, Description => 'test');
    die $said unless $id;
    print "$name $token\n";
}
