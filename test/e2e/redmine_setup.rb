# Makes the project soc with two accounts in a new database of Redmine, and prints the name, API
# key and id of each.
Redmine::DefaultData::Loader.load('en')
Setting.rest_api_enabled = '1'
project = Project.create!(name: 'SOC', identifier: 'soc', trackers: Tracker.all, is_public: false, enabled_module_names: ['issue_tracking'])
%w[ndrbridge ana].each do |login|
  user = User.new(firstname: login, lastname: 'Test', mail: "#{login}@corp.example", language: 'en')
  user.login = login
  user.random_password
  user.save!
  Member.create!(project: project, principal: user, roles: [Role.find_by!(name: 'Manager')])
  puts "#{login} #{user.api_key} #{user.id}"
end
