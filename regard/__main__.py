from regard.app.cli.main import main

main()
